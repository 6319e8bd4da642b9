/* SPDX-License-Identifier: Apache-2.0
 *
 * What include/superfluid.h says, as tables and calls that tests/header.rs compares with the crate nf_abi.
 */
#undef SF_NATIVE_PREFIX
#define SF_NATIVE_PREFIX header_
#include "superfluid.h"

struct nothing {
    char unused;
};
SF_FUNCTION(struct nothing)

struct place {
    const char *name;
    uint32_t offset;
    uint32_t size;
};

#define PLACE(field) {#field, offsetof(struct sf_record, field), sizeof(((struct sf_record *)0)->field)}
const struct place header_places[] = {
    PLACE(verdict),    PLACE(offset),     PLACE(length),      PLACE(buffer),        PLACE(mark),     PLACE(timestamp),
    PLACE(flow_hash),  PLACE(tunnel_key), PLACE(nsh_path),    PLACE(service_id),    PLACE(vlan),     PLACE(ingress),
    PLACE(flow_class), PLACE(hop_budget), PLACE(tunnel_type), PLACE(offload_flags), PLACE(gso_type), PLACE(device_port),
    PLACE(gso_size),   PLACE(csum_start), PLACE(csum_offset), PLACE(reserved2),     {0, 0, 0},
};

struct number {
    const char *name;
    int64_t value;
};

#define NUMBER(name) {#name, (int64_t)(name)}
const struct number header_numbers[] = {
    NUMBER(SF_ABI_VERSION),   NUMBER(SF_WINDOW_BASE),    NUMBER(SF_WINDOW_MAX),    NUMBER(SF_MAX_BATCH),
    NUMBER(SF_MAX_EVENT),     NUMBER(SF_STREAM_EVENT),   NUMBER(SF_MAX_ASKS),
    NUMBER(SF_STREAM_DEVICES), NUMBER(SF_STREAM_SLOTS), NUMBER(SF_STREAM_CHANGE),
    NUMBER(SF_STREAM_RANDOM), NUMBER(SF_RANDOM),
    NUMBER(SF_CHANGE_TAKEN), NUMBER(SF_CHANGE_MORE), NUMBER(SF_CHANGE_REFUSED),
    NUMBER(SF_MAX_SLOTS),     NUMBER(SF_STREAM_CONFIG),  NUMBER(SF_STREAM_STATE),  NUMBER(SF_STREAM_REPORT),
    NUMBER(SF_LOG_ERROR),     NUMBER(SF_LOG_WARNING),    NUMBER(SF_LOG_INFO),      NUMBER(SF_LOG_DEBUG),
    NUMBER(SF_ERROR_RANGE),   NUMBER(SF_ERROR_STREAM),   NUMBER(SF_ERROR_COUNTER), NUMBER(SF_ERROR_SLOT),
    NUMBER(SF_ERROR_VERDICT), NUMBER(SF_ERROR_LIMIT),    NUMBER(SF_TUNNEL_NONE),   NUMBER(SF_TUNNEL_VXLAN),
    NUMBER(SF_NEEDS_CHECKSUM), NUMBER(SF_CHECKSUM_VALID), NUMBER(SF_GSO_NONE),     NUMBER(SF_GSO_TCPV4),
    NUMBER(SF_GSO_UDP),       NUMBER(SF_GSO_TCPV6),      NUMBER(SF_GSO_UDP_L4),    NUMBER(SF_GSO_ECN),
    NUMBER(SF_VERDICT_NONE),  NUMBER(SF_CONSUME),        {0, 0},
};

uint32_t header_verdict(uint32_t kind, uint16_t argument)
{
    switch (kind) {
    case SF_VERDICT_DROP:
        return sf_drop(argument);
    case SF_VERDICT_INTERFACE:
        return sf_interface(argument);
    case SF_VERDICT_SERVICE:
        return sf_service(argument);
    default:
        return sf_hold(argument);
    }
}

/* What a key of a configuration is, by every reader that takes it. */
struct reading {
    int32_t found; /* enum sf_found */
    uint32_t kinds; /* a bit for each reader that took it: bool, unsigned, integer, text, bytes, mac, list, map */
    int64_t integer;
    uint64_t number;
    uint32_t start, length; /* of text or bytes, from the first byte of the configuration */
    uint64_t items;         /* of a list */
    int64_t sum;            /* of its integers */
    uint8_t truth;
    uint8_t mac[6];
    int32_t ended; /* how the list ended: enum sf_found */
};

void header_read(const uint8_t *bytes, uint32_t length, const char *key, struct reading *out)
{
    struct sf_value map = {bytes, bytes + length}, value, item;
    out->found = sf_map_get(map, key, &value);
    if (out->found != SF_FOUND)
        return;
    bool truth;
    const char *text;
    const uint8_t *string;
    struct sf_list list;
    if (sf_as_bool(value, &truth)) {
        out->kinds |= 1;
        out->truth = truth;
    }
    out->kinds |= (uint32_t)sf_as_unsigned(value, &out->number) << 1;
    out->kinds |= (uint32_t)sf_as_integer(value, &out->integer) << 2;
    if (sf_as_text(value, &text, &out->length)) {
        out->kinds |= 8;
        out->start = (uint32_t)((const uint8_t *)text - bytes);
    }
    if (sf_as_bytes(value, &string, &out->length)) {
        out->kinds |= 16;
        out->start = (uint32_t)(string - bytes);
    }
    out->kinds |= (uint32_t)sf_as_mac(value, out->mac) << 5;
    if (sf_list_open(value, &list)) {
        out->kinds |= 64;
        while ((out->ended = sf_list_next(&list, &item)) == SF_FOUND) {
            int64_t integer;
            out->items++;
            if (sf_as_integer(item, &integer))
                out->sum = (int64_t)((uint64_t)out->sum + (uint64_t)integer);
        }
    }
    out->kinds |= (uint32_t)(sf_map_get(value, "", &item) != SF_INVALID) << 7;
}
