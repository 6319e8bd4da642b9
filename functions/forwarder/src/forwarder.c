/* SPDX-License-Identifier: Apache-2.0
 *
 * The network function `forwarder`: swaps or rewrites MAC addresses and sends frames out by the other interface.
 *
 * 1. sf_init turns both modes into constants of the 12 address bytes.
 * 2. sf_process goes through the batch four frames at a time. Of a frame it touches these 12 bytes alone, as one word of
 *    8 bytes and one of 4.
 *
 * Limits: two interfaces; frames shorter than an Ethernet header are dropped (`runt`) and not touched.
 */
#include "superfluid.h"

/* Destination, source, type: IEEE 802.3, without the checksum. */
#define ETHERNET_HEADER 14u

/* Index in the manifest's drop_reasons. */
#define DROP_RUNT 0

/* What sf_init answers when it is not ready. */
enum failure { BAD_CONFIG = 1, USELESS_REWRITE = 2, ADDRESSES_IN_SWAP = 3 };

struct forwarder {
    bool rewrite;
    /* Leaves an interface as it is (0), or turns it into the other one (1). */
    uint32_t other;
    /* The address bytes: what stays of the old ones, and what is set. Little-endian, bytes 0 to 7 and 8 to 11. */
    uint64_t keep_low, set_low;
    uint32_t keep_high, set_high;
};

SF_FUNCTION(struct forwarder)

SF_EXPORT(sf_init)
int32_t sf_init(void)
{
    struct forwarder *self = sf_self();
    uint8_t space[256];
    struct sf_value config;
    if (!sf_config_open(&config, space, sizeof space)) {
        sf_log(SF_LOG_ERROR, "the configuration cannot be read");
        return BAD_CONFIG;
    }

    const char *mode = "swap";
    uint32_t mode_length = 4;
    bool reflect = false;
    uint8_t keep[12], set[12];
    for (uint32_t n = 0; n < 12; n++) {
        keep[n] = 0xff;
        set[n] = 0;
    }
    enum sf_found destination = sf_config_mac(&config, "destination", set);
    enum sf_found source = sf_config_mac(&config, "source", set + 6);
    if (destination == SF_INVALID || source == SF_INVALID ||
        sf_config_text(&config, "mode", &mode, &mode_length) == SF_INVALID ||
        sf_config_bool(&config, "reflect", &reflect) == SF_INVALID) {
        sf_log(SF_LOG_ERROR, "the configuration does not match the schema");
        return BAD_CONFIG;
    }
    for (uint32_t n = 0; n < 6; n++) {
        keep[n] = destination == SF_FOUND ? 0 : 0xff;
        keep[n + 6] = source == SF_FOUND ? 0 : 0xff;
    }

    self->rewrite = sf_text_equals(mode, mode_length, "rewrite");
    if (!self->rewrite && !sf_text_equals(mode, mode_length, "swap")) {
        sf_log(SF_LOG_ERROR, "mode is neither swap nor rewrite");
        return BAD_CONFIG;
    }
    bool given = destination == SF_FOUND || source == SF_FOUND;
    if (self->rewrite && !given) {
        sf_log(SF_LOG_ERROR, "mode rewrite needs `source`, `destination` or both");
        return USELESS_REWRITE;
    }
    if (!self->rewrite && given) {
        sf_log(SF_LOG_ERROR, "`source` and `destination` have no effect in mode swap: give mode rewrite");
        return ADDRESSES_IN_SWAP;
    }
    self->other = reflect ? 0 : 1;
    self->keep_low = sf_load64(keep);
    self->keep_high = sf_load32(keep + 8);
    self->set_low = sf_load64(set);
    self->set_high = sf_load32(set + 8);
    return 0;
}

/* The 12 address bytes of a frame. */
struct addresses {
    uint64_t low;
    uint32_t high;
};

static inline struct addresses load(const uint8_t *at)
{
    return (struct addresses){sf_load64(at), sf_load32(at + 8)};
}

static inline void store(uint8_t *at, struct addresses addresses)
{
    sf_store64(at, addresses.low);
    sf_store32(at + 8, addresses.high);
}

static inline struct addresses changed(const struct forwarder *self, bool rewrite, struct addresses old)
{
    if (rewrite)
        return (struct addresses){(old.low & self->keep_low) | self->set_low,
                                  (old.high & self->keep_high) | self->set_high};
    /* 96 bits, turned by 48. */
    return (struct addresses){old.low >> 48 | (uint64_t)old.high << 16 | old.low << 48, (uint32_t)(old.low >> 16)};
}

static inline __attribute__((always_inline)) void forward_one(const struct forwarder *self, bool rewrite,
                                                              uint8_t *window, struct sf_record *record)
{
    if (record->length < ETHERNET_HEADER) {
        record->verdict = sf_drop(DROP_RUNT);
        return;
    }
    uint8_t *frame = sf_at(window, record->buffer + record->offset);
    store(frame, changed(self, rewrite, load(frame)));
    record->verdict = SF_VERDICT_INTERFACE | (record->ingress ^ self->other) << 8;
}

/* Four at a time: the sandbox looks at its clock once in each round of a loop. */
static inline __attribute__((always_inline)) void forward(const struct forwarder *state, bool rewrite, uint32_t count)
{
    const struct forwarder copy = *state, *self = &copy; /* Constants of the loop, whatever it stores. */
    uint8_t *window = sf_window();
    struct sf_record *record = sf_records(), *end = record + count;
    for (; end - record >= 4; record += 4) {
        forward_one(self, rewrite, window, record);
        forward_one(self, rewrite, window, record + 1);
        forward_one(self, rewrite, window, record + 2);
        forward_one(self, rewrite, window, record + 3);
    }
    for (; record < end; record++)
        forward_one(self, rewrite, window, record);
}

SF_EXPORT(sf_process)
void sf_process(uint32_t count, uint64_t now)
{
    (void)now;
    const struct forwarder *self = sf_self();
    if (self->rewrite)
        forward(self, true, count);
    else
        forward(self, false, count);
}

/* It knows nothing that another instance would have to be told: nothing is handed over, and nothing but that is taken. */
SF_EXPORT(sf_export_state)
int32_t sf_export_state(void)
{
    return 0;
}

SF_EXPORT(sf_import_state)
int32_t sf_import_state(void)
{
    return sf_read(SF_STREAM_STATE, 0, (void *)0, 0) == 0 ? 0 : 1;
}
