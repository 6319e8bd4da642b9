/* A host in memory, for the tests of a function in C, natively: compile the function and the test with -DSF_NATIVE.
 *
 *     #include "superfluid_test.h"
 *
 *     SF_TEST(drops_long_packets)
 *     {
 *         sf_test_key("longest"), sf_test_unsigned(500);          the configuration, in the order of its keys
 *         sf_test_begin();                                        calls sf_init
 *         SF_EXPECT(sf_test_packet(frame, 60, 0), sf_interface(1));
 *         SF_EXPECT(sf_test.counters[0], 1);
 *     }
 *
 *     int main(void) { return sf_test_run(drops_long_packets, "drops_long_packets"); }
 *
 * One instance at a time. Each test begins with a new one: zeroed state, no configuration, counters at 0. What goes wrong is
 * told on standard error with file and line, and ends the program with 1.
 *
 * Limits: one test program for one function; configurations of 4 KiB; streams of 64 KiB; 64 packets in a batch, of 2,048
 * bytes with 128 in front; 256 slots; 64 counters. What goes beyond ends the program. */
#ifndef SUPERFLUID_TEST_H
#define SUPERFLUID_TEST_H

#include "superfluid.h"

#ifndef SF_NATIVE
#error "tests are native: compile function and test with -DSF_NATIVE"
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SF_TEST_ROOM 2048u     /* bytes of a packet's buffer */
#define SF_TEST_HEADROOM 128u  /* of those, in front of its first byte */
#define SF_TEST_SLOTS 256u
#define SF_TEST_COUNTERS 64u

/* Bytes that a stream has or was given. */
struct sf_test_stream {
    uint8_t bytes[64 << 10];
    uint32_t length;
};

/* A packet in a slot, or one that was given up. */
struct sf_test_slot {
    bool taken;
    uint32_t length;
    uint32_t verdict; /* when it was given up */
    uint64_t mark;
    uint8_t bytes[SF_TEST_ROOM];
};

/* The host, for a test to look at. */
static struct {
    struct sf_record records[SF_MAX_BATCH];
    uint8_t window[SF_MAX_BATCH * SF_TEST_ROOM];
    uint8_t config[4096]; /* a map; its head is written by sf_test_begin */
    uint32_t config_length, config_keys;
    uint64_t counters[SF_TEST_COUNTERS];
    struct sf_test_slot slots[SF_TEST_SLOTS];
    struct sf_test_slot emitted[SF_TEST_SLOTS]; /* what was given up, in order */
    uint32_t emitted_count;
    uint64_t deadline; /* 0: none */
    uint8_t random[SF_RANDOM]; /* what sf_random reads: zeros, unless a test writes other bytes */
    struct sf_test_stream devices; /* what SF_STREAM_DEVICES reads; a test fills it and calls sf_devices */
    struct sf_test_stream asks;    /* entries that were asked for */
    struct sf_test_stream log, events, report, state; /* what was written; `state` is read by sf_import_state as well */
    bool refuse_packets; /* sf_packet_new answers as beyond the quota */
    uint64_t now;
    void *memory;
    struct sf_native native;
} sf_test;

#define SF_EXPECT(found, wanted) sf_test_expect(__FILE__, __LINE__, #found, (uint64_t)(found), (uint64_t)(wanted))
#define SF_TEST(name) static void name(void)

__attribute__((unused)) static void sf_test_expect(const char *file, int line, const char *what, uint64_t found,
                                                   uint64_t wanted)
{
    if (found == wanted)
        return;
    fprintf(stderr, "%s:%d: %s: found %llu (0x%llx), wanted %llu (0x%llx)\n", file, line, what,
            (unsigned long long)found, (unsigned long long)found, (unsigned long long)wanted,
            (unsigned long long)wanted);
    exit(1);
}

static void sf_test_fail_(const char *what)
{
    fprintf(stderr, "the test's host: %s\n", what);
    exit(1);
}

/* ---- The configuration: CBOR as the host writes it ------------------------------------------------------------- */

static void sf_test_bytes_(const void *bytes, uint32_t length)
{
    /* The map's head comes in front of it. */
    if (length > sizeof sf_test.config - 9 - sf_test.config_length)
        sf_test_fail_("the configuration is longer than 4 KiB");
    memcpy(sf_test.config + 9 + sf_test.config_length, bytes, length);
    sf_test.config_length += length;
}

/* The shortest head of an item; returns its length. */
static uint32_t sf_test_head_(uint8_t out[9], uint32_t major, uint64_t argument)
{
    uint32_t bytes = argument < 24 ? 0 : argument <= UINT8_MAX ? 1 : argument <= UINT16_MAX ? 2
                   : argument <= UINT32_MAX ? 4 : 8;
    static const uint8_t low[] = {0, 24, 25, 0, 26, 0, 0, 0, 27};
    out[0] = (uint8_t)(major << 5 | (bytes ? low[bytes] : argument));
    for (uint32_t n = 0; n < bytes; n++)
        out[1 + n] = (uint8_t)(argument >> 8 * (bytes - 1 - n));
    return 1 + bytes;
}

static void sf_test_item_(uint32_t major, uint64_t argument)
{
    uint8_t head[9];
    sf_test_bytes_(head, sf_test_head_(head, major, argument));
}

/* A string, an enum's value. */
__attribute__((unused)) static void sf_test_text(const char *text)
{
    sf_test_item_(3, strlen(text));
    sf_test_bytes_(text, (uint32_t)strlen(text));
}

/* A key of the configuration; its value follows. Keys of maps inside are written by sf_test_text. */
__attribute__((unused)) static void sf_test_key(const char *key)
{
    sf_test.config_keys++;
    sf_test_text(key);
}

/* A duration in nanoseconds, a size, a number that is not negative. */
__attribute__((unused)) static void sf_test_unsigned(uint64_t value) { sf_test_item_(0, value); }

__attribute__((unused)) static void sf_test_integer(int64_t value)
{
    sf_test_item_(value < 0, value < 0 ? (uint64_t)(-1 - value) : (uint64_t)value);
}

__attribute__((unused)) static void sf_test_bool(bool value) { sf_test_item_(7, value ? 21 : 20); }

/* A MAC address of 6 bytes, an address of 4 or 16. */
__attribute__((unused)) static void sf_test_octets(const void *bytes, uint32_t length)
{
    sf_test_item_(2, length);
    sf_test_bytes_(bytes, length);
}

/* So many items follow: a list; a prefix is an address and its length, a range of ports its first and last. */
__attribute__((unused)) static void sf_test_list(uint32_t items) { sf_test_item_(4, items); }

/* So many pairs of a key and a value follow. */
__attribute__((unused)) static void sf_test_map(uint32_t pairs) { sf_test_item_(5, pairs); }

/* ---- What the function calls ----------------------------------------------------------------------------------- */

static int32_t sf_test_read_(void *context, uint32_t stream, uint32_t offset, void *address, uint32_t capacity)
{
    (void)context;
    const uint8_t *bytes;
    uint32_t length;
    if (stream == SF_STREAM_CONFIG) {
        uint8_t head[9];
        uint32_t size = sf_test_head_(head, 5, sf_test.config_keys);
        bytes = sf_test.config + 9 - size;
        memcpy(sf_test.config + 9 - size, head, size);
        length = size + sf_test.config_length;
    } else if (stream == SF_STREAM_STATE) {
        bytes = sf_test.state.bytes;
        length = sf_test.state.length;
    } else if (stream == SF_STREAM_DEVICES) {
        bytes = sf_test.devices.bytes;
        length = sf_test.devices.length;
    } else if (stream == SF_STREAM_RANDOM) {
        bytes = sf_test.random;
        length = sizeof sf_test.random;
    } else {
        return SF_ERROR_STREAM;
    }
    uint32_t rest = offset < length ? length - offset : 0;
    memcpy(address, bytes + (offset < length ? offset : 0), rest < capacity ? rest : capacity);
    return (int32_t)length;
}

static int32_t sf_test_write_(void *context, uint32_t stream, const void *address, uint32_t length)
{
    (void)context;
    bool is_log = stream >= SF_LOG_ERROR && stream <= SF_LOG_DEBUG;
    struct sf_test_stream *to = stream == SF_STREAM_REPORT ? &sf_test.report
                              : stream == SF_STREAM_STATE  ? &sf_test.state
                              : stream == SF_STREAM_EVENT  ? &sf_test.events
                              : stream == SF_STREAM_DEVICES ? &sf_test.asks
                              : is_log                     ? &sf_test.log
                                                           : NULL;
    if (!to)
        return SF_ERROR_STREAM;
    if (length >= sizeof to->bytes - to->length)
        sf_test_fail_("more than 64 KiB were written to a stream");
    memcpy(to->bytes + to->length, address, length);
    to->length += length;
    if (is_log || to == &sf_test.events)
        to->bytes[to->length++] = '\n';
    return 0;
}

static int32_t sf_test_counter_add_(void *context, uint32_t index, uint64_t amount)
{
    (void)context;
    if (index >= SF_TEST_COUNTERS)
        return SF_ERROR_COUNTER;
    sf_test.counters[index] += amount;
    return 0;
}

static uint32_t sf_test_packet_new_(void *context, uint32_t slot, const void *address, uint32_t length)
{
    (void)context;
    if (sf_test.refuse_packets || slot >= SF_TEST_SLOTS || sf_test.slots[slot].taken || length > SF_TEST_ROOM)
        return 0;
    sf_test.slots[slot].taken = true;
    sf_test.slots[slot].length = length;
    memcpy(sf_test.slots[slot].bytes, address, length);
    /* Natively the bytes are not in the window: a function changes them before it makes the packet. */
    return SF_WINDOW_BASE;
}

static int32_t sf_test_packet_emit_(void *context, uint32_t slot, uint32_t verdict, int32_t offset, uint32_t length,
                                    uint64_t mark)
{
    (void)context;
    if (slot >= SF_TEST_SLOTS || !sf_test.slots[slot].taken)
        return SF_ERROR_SLOT;
    if (sf_test.emitted_count == SF_TEST_SLOTS)
        sf_test_fail_("more than 256 packets were given up");
    struct sf_test_slot *out = &sf_test.emitted[sf_test.emitted_count++];
    *out = sf_test.slots[slot];
    if (offset >= 0 && length <= out->length)
        out->length = length;
    out->verdict = verdict;
    out->mark = mark;
    sf_test.slots[slot].taken = false;
    return 0;
}

static int32_t sf_test_timer_set_(void *context, uint64_t deadline)
{
    (void)context;
    sf_test.deadline = deadline;
    return 0;
}

/* ---- Running --------------------------------------------------------------------------------------------------- */

/* Makes the instance with the configuration that was written; what sf_init answers. */
__attribute__((unused)) static int32_t sf_test_try(void)
{
    size_t size = (sf_state_size + 63u) / 64 * 64;
    sf_test.memory = aligned_alloc(64, size ? size : 64);
    if (!sf_test.memory)
        sf_test_fail_("no memory for the function's state");
    memset(sf_test.memory, 0, size);
    sf_test.native = (struct sf_native){
        .records = sf_test.records,
        .window = sf_test.window,
        .state = sf_test.memory,
        .read = sf_test_read_,
        .write = sf_test_write_,
        .counter_add = sf_test_counter_add_,
        .packet_new = sf_test_packet_new_,
        .packet_emit = sf_test_packet_emit_,
        .timer_set = sf_test_timer_set_,
    };
    sf_enter(&sf_test.native);
    return sf_init();
}

/* The same, and it has to start. */
__attribute__((unused)) static void sf_test_begin(void)
{
    if (sf_test_try() != 0) {
        fprintf(stderr, "sf_init refuses the configuration: %s", (const char *)sf_test.log.bytes);
        exit(1);
    }
}

/* Puts a packet into the batch, by its place; its record may be changed before sf_test_process. */
__attribute__((unused)) static struct sf_record *sf_test_put(uint32_t place, const void *frame, uint32_t length,
                                                             uint16_t ingress)
{
    if (place >= SF_MAX_BATCH || length > SF_TEST_ROOM - SF_TEST_HEADROOM)
        sf_test_fail_("a packet that has no room: 64 of 1,920 bytes");
    memcpy(sf_test.window + place * SF_TEST_ROOM + SF_TEST_HEADROOM, frame, length);
    sf_test.records[place] = (struct sf_record){
        .buffer = SF_WINDOW_BASE + place * SF_TEST_ROOM,
        .offset = SF_TEST_HEADROOM,
        .length = length,
        .timestamp = sf_test.now,
        .ingress = ingress,
        .hop_budget = 128,
    };
    return &sf_test.records[place];
}

/* Calls sf_process with so many packets; packets that it holds are in their slots then. */
__attribute__((unused)) static void sf_test_process(uint32_t count)
{
    sf_enter(&sf_test.native);
    sf_process(count, sf_test.now);
    for (uint32_t n = 0; n < count; n++) {
        const struct sf_record *record = &sf_test.records[n];
        uint32_t slot = record->verdict >> 8;
        if (record->verdict != sf_hold((uint16_t)slot))
            continue;
        if (slot >= SF_TEST_SLOTS || sf_test.slots[slot].taken)
            sf_test_fail_("a packet is held in a slot that is taken, or beyond 255");
        sf_test.slots[slot].taken = true;
        sf_test.slots[slot].length = record->length;
        memcpy(sf_test.slots[slot].bytes, sf_data(record), record->length);
    }
}

/* One packet in a batch of its own: its verdict. */
__attribute__((unused)) static uint32_t sf_test_packet(const void *frame, uint32_t length, uint16_t ingress)
{
    sf_test_put(0, frame, length, ingress);
    sf_test_process(1);
    return sf_test.records[0].verdict;
}

/* Runs a test with an instance of its own; 0, for main. */
__attribute__((unused)) static int sf_test_run(void (*test)(void), const char *name)
{
    memset(&sf_test, 0, sizeof sf_test);
    sf_test.now = 1000000000;
    test();
    free(sf_test.memory);
    printf("%s: good\n", name);
    return 0;
}

#endif
