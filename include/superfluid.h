/* SPDX-License-Identifier: Apache-2.0
 *
 * superfluid.h - what the host and a network function agree on, for functions written in C.
 *
 * It says the same as the crate nf_abi; docs/nf-abi.md tells the contract in prose. The life of a function:
 *
 * 1. sf_init() reads the configuration (sf_config_open and the readers behind it) and answers 0 when it is ready.
 * 2. sf_process(count, now) finds `count` records at sf_records(). It looks at each packet through sf_data(), and sets
 *    the record's verdict; offset, length and mark may be changed as well.
 * 3. The host reads these four fields of each record once, checks them, and carries the verdict out.
 * 4. sf_timer(now) is called when the deadline given to sf_timer_set() has passed.
 *
 * A function is one translation unit:
 *
 *     #include "superfluid.h"
 *
 *     struct counter { uint64_t seen; };
 *     SF_FUNCTION(struct counter)
 *
 *     SF_EXPORT(sf_init) int32_t sf_init(void) { return 0; }
 *
 *     SF_EXPORT(sf_process) void sf_process(uint32_t count, uint64_t now)
 *     {
 *         (void)now;
 *         struct sf_record *record = sf_records();
 *         for (uint32_t n = 0; n < count; n++)
 *             record[n].verdict = sf_interface(record[n].ingress ^ 1);
 *         sf_self()->seen += count;
 *     }
 *
 * Two ways to compile it:
 *
 * - As an image's module: clang --target=wasm32 -ffreestanding -nostdlib -Wl,--no-entry; `superfluid image build` does
 *   it. No C library is needed; memcpy, memmove, memset and memcmp, which compilers call by themselves, are supplied
 *   by SF_FUNCTION.
 * - Natively, for tests, debugging and comparison: clang or gcc with -DSF_NATIVE. A harness supplies the host's side
 *   in a `struct sf_native`. With -DSF_NATIVE_PREFIX=name_ every symbol gets that prefix, so that several functions
 *   can be linked into one program.
 *
 * Everything that a function must keep between calls belongs into the state that SF_FUNCTION names. A sandbox has one,
 * a native program may have as many instances as it likes.
 *
 * Limits: C11, little-endian, header only. All bytes of packets and configuration may be anything: the readers here
 * check every length and never read outside what they were given.
 */
#ifndef SUPERFLUID_H
#define SUPERFLUID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if !defined(__wasm__) && !defined(SF_NATIVE)
#error "compile for --target=wasm32, or natively with -DSF_NATIVE"
#endif

/* ---- Numbers ------------------------------------------------------------------------------------------------- */

/* Version of the contract; also part of the import module's name, so that a function for another does not link. */
#define SF_ABI_VERSION 1u
/* Guest address at which the packet window begins. */
#define SF_WINDOW_BASE 0x80000000u
/* Largest packet window, in bytes. */
#define SF_WINDOW_MAX 0x40000000u
/* Most packets in one call of sf_process. */
#define SF_MAX_BATCH 64u
#define SF_MAX_EVENT 8192u
/* Bytes of SF_STREAM_RANDOM. */
#define SF_RANDOM 32u
/* Most addresses that an instance may ask for between two collections by the host. */
#define SF_MAX_ASKS 256u
/* Slots of an instance: packets that it holds or made are named by numbers below this. The quota is smaller. */
#define SF_MAX_SLOTS 65536u

/* Streams of sf_read and sf_write. */
#define SF_STREAM_CONFIG 0u /* read: the checked configuration in CBOR (RFC 8949) */
#define SF_STREAM_STATE 1u  /* read in sf_import_state, write in sf_export_state: u32 key length, u32 value length, key, value */
#define SF_STREAM_REPORT 2u /* write in sf_report: one JSON value */
#define SF_STREAM_EVENT 3u  /* write: one event, a JSON object of at most SF_MAX_EVENT bytes */
#define SF_STREAM_DEVICES 4u /* read: struct sf_device_entry, one behind the other; write: one, see sf_ask */
#define SF_STREAM_SLOTS 5u /* read: of the slot whose number the offset is, its packet's address and length, 0 and 0: empty */
#define SF_STREAM_CHANGE 6u /* read in sf_change: the key of a file, then its lines that went (-) and came (+) */
#define SF_STREAM_RANDOM 7u /* read: SF_RANDOM bytes that the host drew for this start, see sf_random */
#define SF_LOG_ERROR 8u     /* write: one log line in UTF-8 */
#define SF_LOG_WARNING 9u
#define SF_LOG_INFO 10u
#define SF_LOG_DEBUG 11u

/* What sf_change answers. */
#define SF_CHANGE_TAKEN 0   /* it is as it would be with the changed file */
#define SF_CHANGE_MORE 1    /* it is called again in another turn */
#define SF_CHANGE_REFUSED 2 /* it is as it was */

/* What host calls answer when they refuse. Zero and more is a success. */
#define SF_ERROR_RANGE (-1)   /* the range is not wholly inside private memory, or no entry that the stream takes */
#define SF_ERROR_STREAM (-2)  /* no such stream, or not at this time */
#define SF_ERROR_COUNTER (-3) /* no such counter */
#define SF_ERROR_SLOT (-4)    /* the slot is empty, taken or beyond the quota */
#define SF_ERROR_VERDICT (-5) /* the verdict is none that may be given here */
#define SF_ERROR_LIMIT (-6)   /* a bound on how much may be written, sent or logged was reached */

/* sf_record.tunnel_type. */
#define SF_TUNNEL_NONE 0u
#define SF_TUNNEL_VXLAN 1u /* RFC 7348; tunnel_key is the VNI */
#define SF_TUNNEL_GENEVE 2u /* RFC 8926; tunnel_key is the VNI */
#define SF_TUNNEL_GRE 3u /* RFC 2784; tunnel_key is the key of RFC 2890, 0 without one */
#define SF_TUNNEL_NVGRE 4u /* RFC 7637; tunnel_key is the virtual subnet */
#define SF_TUNNEL_MPLS 5u /* RFC 3032; tunnel_key is the label */
#define SF_TUNNEL_IP_IN_IP 6u /* RFC 2003 */

/* sf_record.offload_flags and .gso_type, as in virtio-net (Virtio 1.2, section 5.1.6). */
#define SF_NEEDS_CHECKSUM 1u /* the checksum at csum_start + csum_offset is partial */
#define SF_CHECKSUM_VALID 2u
#define SF_GSO_NONE 0u
#define SF_GSO_TCPV4 1u
#define SF_GSO_UDP 3u
#define SF_GSO_TCPV6 4u
#define SF_GSO_UDP_L4 5u
#define SF_GSO_ECN 0x80u

/* ---- The record ---------------------------------------------------------------------------------------------- */

/* One packet. The host reads verdict, offset, length and mark back; changes to anything else have no effect. */
struct sf_record {
    _Alignas(64) uint32_t verdict; /* out: what is to happen; 0 when the call begins, which is a drop (no-verdict) */
    uint32_t offset;               /* in and out: the packet's first byte, from the buffer's first byte */
    uint32_t length;               /* in and out: bytes in the packet */
    uint32_t buffer;               /* guest address of the buffer's first byte, inside the window */
    uint64_t mark;                 /* in and out: the tenant's own mark */
    uint64_t timestamp;            /* time of reception, nanoseconds since the Unix epoch */
    uint32_t flow_hash;            /* equal for both directions of a flow; 0: not computed */
    uint32_t tunnel_key;           /* key of the tunnel that the packet came through */
    uint32_t nsh_path;             /* service path (upper 24 bits) and index (lower 8), RFC 8300 section 2.3 */
    uint16_t service_id;           /* the service ID that led the packet here; 0: none */
    uint16_t vlan;                 /* outermost VLAN tag control information, also in the bytes; 0: untagged */
    uint16_t ingress;              /* the instance's interface that the packet came in by */
    uint8_t flow_class;            /* class of the flow, chosen by the classifier */
    uint8_t hop_budget;            /* how many more functions may see the packet */
    uint8_t tunnel_type;           /* SF_TUNNEL_ */
    uint8_t offload_flags;         /* SF_NEEDS_CHECKSUM, SF_CHECKSUM_VALID */
    uint8_t gso_type;              /* SF_GSO_ */
    uint8_t device_port;           /* by which port of its device it came, from 1 on; 0: by none */
    uint16_t gso_size;             /* payload bytes per segment; without gso_type the bytes that a capture left out */
    uint16_t csum_start;           /* where checksumming starts, from the packet's first byte */
    uint16_t csum_offset;          /* where the checksum is stored, from csum_start */
    uint16_t reserved2;            /* zero */
};

#define SF_OFFSET(field, offset) \
    _Static_assert(offsetof(struct sf_record, field) == (offset), "sf_record." #field " is at " #offset)
SF_OFFSET(verdict, 0);
SF_OFFSET(offset, 4);
SF_OFFSET(length, 8);
SF_OFFSET(buffer, 12);
SF_OFFSET(mark, 16);
SF_OFFSET(timestamp, 24);
SF_OFFSET(flow_hash, 32);
SF_OFFSET(tunnel_key, 36);
SF_OFFSET(nsh_path, 40);
SF_OFFSET(service_id, 44);
SF_OFFSET(vlan, 46);
SF_OFFSET(ingress, 48);
SF_OFFSET(flow_class, 50);
SF_OFFSET(hop_budget, 51);
SF_OFFSET(tunnel_type, 52);
SF_OFFSET(offload_flags, 53);
SF_OFFSET(gso_type, 54);
SF_OFFSET(device_port, 55);
SF_OFFSET(gso_size, 56);
SF_OFFSET(csum_start, 58);
SF_OFFSET(csum_offset, 60);
SF_OFFSET(reserved2, 62);
_Static_assert(sizeof(struct sf_record) == 64, "a record is 64 bytes");
_Static_assert(_Alignof(struct sf_record) == 64, "a record is one cache line");

/* ---- Devices ------------------------------------------------------------------------------------------------- */

/* sf_device_entry.kind. Others are passed over. */
#define SF_DEVICE_INTERFACE 1u
#define SF_DEVICE_ADDRESS 2u
#define SF_DEVICE_NEIGHBOUR 3u
#define SF_DEVICE_GATEWAY 4u

/* sf_device_entry.state of a neighbour. */
#define SF_NEIGHBOUR_REACHABLE 1u
#define SF_NEIGHBOUR_ASKED 2u
#define SF_NEIGHBOUR_UNREACHABLE 3u

/* An entry of SF_STREAM_DEVICES, ordered by interface, kind and address. */
struct sf_device_entry {
    uint8_t kind;
    uint8_t family;      /* of the address: 4, 6; 0 without one */
    uint16_t interface;
    uint8_t prefix;      /* of an address of the interface's own: bits of its network's prefix */
    uint8_t state;       /* of an interface: 1 when the link is up; of a neighbour: SF_NEIGHBOUR_ */
    uint8_t mac[6];      /* of an interface and a neighbour; zero: not known */
    uint32_t mtu;        /* of an interface, without the Ethernet header; 0: not known */
    uint8_t address[16]; /* an IPv4 address in the first four */
};
_Static_assert(sizeof(struct sf_device_entry) == 32, "an entry is 32 bytes");
_Static_assert(offsetof(struct sf_device_entry, mac) == 6, "sf_device_entry.mac is at 6");
_Static_assert(offsetof(struct sf_device_entry, mtu) == 12, "sf_device_entry.mtu is at 12");
_Static_assert(offsetof(struct sf_device_entry, address) == 16, "sf_device_entry.address is at 16");

/* ---- Verdicts: the kind in the low 8 bits, its argument in the 16 above ------------------------------------------ */

#define SF_VERDICT_NONE 0u
#define SF_VERDICT_DROP 1u
#define SF_VERDICT_INTERFACE 2u
#define SF_VERDICT_SERVICE 3u
#define SF_VERDICT_HOLD 4u
#define SF_VERDICT_CONSUME 5u

/* Beside any of them, in a record whose gso_type is not SF_GSO_NONE: the packet's IP header has become one of the other
 * version, and so do the segments that it is still to be cut into. */
#define SF_OTHER_VERSION (1u << 24)

/* The function is where the packet was going; counted as consumed, not as dropped. */
#define SF_CONSUME SF_VERDICT_CONSUME

/* Drop it, for this entry of the manifest's drop_reasons, counted from 0. */
static inline uint32_t sf_drop(uint16_t reason)
{
    return SF_VERDICT_DROP | (uint32_t)reason << 8;
}

/* Send it out by this interface of the instance. */
static inline uint32_t sf_interface(uint16_t k)
{
    return SF_VERDICT_INTERFACE | (uint32_t)k << 8;
}

/* Send it to the endpoint that the service table names. */
static inline uint32_t sf_service(uint16_t id)
{
    return SF_VERDICT_SERVICE | (uint32_t)id << 8;
}

/* Keep it in this empty slot until sf_packet_emit or the longest hold time. */
static inline uint32_t sf_hold(uint16_t slot)
{
    return SF_VERDICT_HOLD | (uint32_t)slot << 8;
}

/* ---- Host calls ---------------------------------------------------------------------------------------------- */

#ifdef SF_NATIVE

#ifndef SF_NATIVE_PREFIX
#define SF_NATIVE_PREFIX
#endif
#define SF_JOIN_(prefix, name) prefix##name
#define SF_JOIN(prefix, name) SF_JOIN_(prefix, name)
#define SF_SYMBOL(name) SF_JOIN(SF_NATIVE_PREFIX, name)

#define sf_init SF_SYMBOL(sf_init)
#define sf_process SF_SYMBOL(sf_process)
#define sf_timer SF_SYMBOL(sf_timer)
#define sf_finish SF_SYMBOL(sf_finish)
#define sf_devices SF_SYMBOL(sf_devices)
#define sf_change SF_SYMBOL(sf_change)
#define sf_report SF_SYMBOL(sf_report)
#define sf_export_state SF_SYMBOL(sf_export_state)
#define sf_import_state SF_SYMBOL(sf_import_state)
#define sf_enter SF_SYMBOL(sf_enter)
#define sf_state_size SF_SYMBOL(sf_state_size)
#define sf_native_instance SF_SYMBOL(sf_native_instance)

/* Natively, marks an export; the symbol is the name, with the prefix. */
#define SF_EXPORT(name)

/* The host's side of one native instance, filled by the harness. It calls sf_enter with it before any of the function's
 * exports, on the same thread. The calls answer as those of the sandbox do. */
struct sf_native {
    struct sf_record *records; /* what sf_records answers: SF_MAX_BATCH records, or as many as sf_process is told */
    uint8_t *window;           /* host address of guest address SF_WINDOW_BASE */
    void *state;               /* sf_state_size bytes, zeroed at first, aligned to 64 */
    void *context;             /* handed to each call */
    int32_t (*read)(void *context, uint32_t stream, uint32_t offset, void *address, uint32_t capacity);
    int32_t (*write)(void *context, uint32_t stream, const void *address, uint32_t length);
    int32_t (*counter_add)(void *context, uint32_t index, uint64_t amount);
    uint32_t (*packet_new)(void *context, uint32_t slot, const void *address, uint32_t length);
    int32_t (*packet_emit)(void *context, uint32_t slot, uint32_t verdict, int32_t offset, uint32_t length,
                           uint64_t mark);
    int32_t (*timer_set)(void *context, uint64_t deadline);
};

extern _Thread_local struct sf_native *sf_native_instance;
extern const uint32_t sf_state_size;
void sf_enter(struct sf_native *native);

#else

/* Marks an export of the module. */
#define SF_EXPORT(name) __attribute__((export_name(#name)))
#define SF_IMPORT(name) __attribute__((import_module("superfluid_v1"), import_name(#name)))

SF_IMPORT(read)
int32_t sf_import_read(uint32_t stream, uint32_t offset, void *address, uint32_t capacity);
SF_IMPORT(write)
int32_t sf_import_write(uint32_t stream, const void *address, uint32_t length);
SF_IMPORT(counter_add)
int32_t sf_import_counter_add(uint32_t index, uint64_t amount);
SF_IMPORT(packet_new)
uint32_t sf_import_packet_new(uint32_t slot, const void *address, uint32_t length);
SF_IMPORT(packet_emit)
int32_t sf_import_packet_emit(uint32_t slot, uint32_t verdict, int32_t offset, uint32_t length, uint64_t mark);
SF_IMPORT(timer_set)
int32_t sf_import_timer_set(uint64_t deadline);

#endif

/* The function's exports. The first two are required, and so is sf_batch, which SF_FUNCTION defines. Times are in
 * nanoseconds since the Unix epoch. */
int32_t sf_init(void);                              /* once, before any packet: 0, or an error number of its own */
void sf_process(uint32_t count, uint64_t now);      /* one batch of 1 to SF_MAX_BATCH records */
void sf_timer(uint64_t now);                        /* optional: the deadline has passed */
void sf_devices(uint64_t now);                      /* optional: what SF_STREAM_DEVICES says has changed */
int32_t sf_change(uint64_t now);                    /* optional: SF_STREAM_CHANGE has a changed file: SF_CHANGE_ */
int32_t sf_finish(uint64_t now);                    /* optional: the program stops: give what is left; 1: there is more */
void sf_report(uint64_t now);                       /* optional: write one JSON value to SF_STREAM_REPORT */
int32_t sf_export_state(void);                      /* optional: write entries to SF_STREAM_STATE; 0 when complete */
int32_t sf_import_state(void);                      /* optional: read entries from SF_STREAM_STATE; 0 when taken over */

/* Copies bytes [offset, offset + capacity) of an input stream, as far as there are any. Returns the stream's whole
 * length, which may be more than the capacity, or an SF_ERROR_. */
static inline int32_t sf_read(uint32_t stream, uint32_t offset, void *address, uint32_t capacity)
{
#ifdef SF_NATIVE
    return sf_native_instance->read(sf_native_instance->context, stream, offset, address, capacity);
#else
    return sf_import_read(stream, offset, address, capacity);
#endif
}

/* Appends to an output stream. 0 or an SF_ERROR_. */
static inline int32_t sf_write(uint32_t stream, const void *address, uint32_t length)
{
#ifdef SF_NATIVE
    return sf_native_instance->write(sf_native_instance->context, stream, address, length);
#else
    return sf_import_write(stream, address, length);
#endif
}

/* Adds to an entry of the manifest's counters, counted from 0. Once a batch is cheaper than once a packet. */
static inline int32_t sf_counter_add(uint32_t index, uint64_t amount)
{
#ifdef SF_NATIVE
    return sf_native_instance->counter_add(sf_native_instance->context, index, amount);
#else
    return sf_import_counter_add(index, amount);
#endif
}

/* Makes a packet of the function's own, with these bytes, in an empty slot. Returns the guest address of its first
 * byte, or 0 when it was refused (quota, pool, slot or range). */
static inline uint32_t sf_packet_new(uint16_t slot, const void *address, uint32_t length)
{
#ifdef SF_NATIVE
    return sf_native_instance->packet_new(sf_native_instance->context, slot, address, length);
#else
    return sf_import_packet_new(slot, address, length);
#endif
}

/* Leaves offset and length of sf_packet_emit as they are. */
#define SF_SAME_EXTENT (-1)

/* Gives up a held or own packet with a verdict (not sf_hold). 0 or an SF_ERROR_. */
static inline int32_t sf_packet_emit(uint16_t slot, uint32_t verdict, int32_t offset, uint32_t length, uint64_t mark)
{
#ifdef SF_NATIVE
    return sf_native_instance->packet_emit(sf_native_instance->context, slot, verdict, offset, length, mark);
#else
    return sf_import_packet_emit(slot, verdict, offset, length, mark);
#endif
}

/* Sets the one next deadline, nanoseconds since the Unix epoch; 0 cancels it. */
static inline int32_t sf_timer_set(uint64_t deadline)
{
#ifdef SF_NATIVE
    return sf_native_instance->timer_set(sf_native_instance->context, deadline);
#else
    return sf_import_timer_set(deadline);
#endif
}

/* Writes a log line: sf_log(SF_LOG_WARNING, "table is full"). The text is a string literal. */
#define sf_log(severity, literal) ((void)sf_write((severity), "" literal, (uint32_t)(sizeof(literal) - 1)))

/* Tells the operator what was found, as a JSON object; SF_ERROR_LIMIT when it is too long or there were too many. */
static inline int32_t sf_event(const char *json, uint32_t length)
{
    return sf_write(SF_STREAM_EVENT, json, length);
}

/* What senders of packets do not know: bytes that the host drew for this start of the function. A table whose keys come
 * from packets is keyed with them, or senders choose keys that collide. False when the host has none. */
static inline bool sf_random(uint8_t bytes[SF_RANDOM])
{
    return sf_read(SF_STREAM_RANDOM, 0, bytes, SF_RANDOM) == (int32_t)SF_RANDOM;
}

/* Asks for the MAC address of a neighbour; `address` has 4 or 16 bytes, as `family` says. The answer comes with a change
 * of SF_STREAM_DEVICES; SF_ERROR_LIMIT when too much was asked. */
static inline int32_t sf_ask(uint16_t interface, uint8_t family, const uint8_t *address)
{
    struct sf_device_entry entry = {
        .kind = SF_DEVICE_NEIGHBOUR, .family = family, .interface = interface, .state = SF_NEIGHBOUR_ASKED};
    for (uint32_t n = 0; n < (family == 4 ? 4u : 16u); n++)
        entry.address[n] = address[n];
    return sf_write(SF_STREAM_DEVICES, &entry, sizeof entry);
}

/* ---- The function -------------------------------------------------------------------------------------------- */

/* SF_FUNCTION(type), once in a function: defines the batch area with sf_batch, and the function's state, one zeroed
 * object of this type behind `type *sf_self(void)`. */
#ifdef SF_NATIVE

#define SF_FUNCTION(type)                                                              \
    _Thread_local struct sf_native *sf_native_instance;                                \
    const uint32_t sf_state_size = (uint32_t)sizeof(type);                             \
    void sf_enter(struct sf_native *native) { sf_native_instance = native; }           \
    __attribute__((unused)) static inline type *sf_self(void)                          \
    {                                                                                  \
        return (type *)sf_native_instance->state;                                      \
    }

/* The records of the batch. */
static inline struct sf_record *sf_records(void)
{
    return sf_native_instance->records;
}

/* Where the packet window begins. A loop keeps it in a variable, for sf_at. */
static inline uint8_t *sf_window(void)
{
    return sf_native_instance->window;
}

/* The byte at a guest address inside the window. */
static inline uint8_t *sf_at(uint8_t *window, uint32_t address)
{
    return window + (address - SF_WINDOW_BASE);
}

#else

extern struct sf_record sf_batch_records[SF_MAX_BATCH];

/* What compilers call by themselves for copies and clears is weak: a C library's own are taken where one is linked. The state
 * has an initializer so that it comes before the records, whose end is never touched while batches are small. */
#define SF_FUNCTION(type)                                                                                           \
    __attribute__((visibility("hidden"))) type sf_state_ = {0};                                                     \
    __attribute__((unused)) static inline type *sf_self(void) { return &sf_state_; }                                \
    struct sf_record sf_batch_records[SF_MAX_BATCH];                                                                \
    SF_EXPORT(sf_batch) struct sf_record *sf_batch(void) { return sf_batch_records; }                               \
    __attribute__((weak, no_builtin)) void *memcpy(void *to, const void *from, size_t count)                        \
    {                                                                                                               \
        for (size_t n = 0; n < count; n++) ((uint8_t *)to)[n] = ((const uint8_t *)from)[n];                         \
        return to;                                                                                                  \
    }                                                                                                               \
    __attribute__((weak, no_builtin)) void *memmove(void *to, const void *from, size_t count)                       \
    {                                                                                                               \
        if ((uintptr_t)to < (uintptr_t)from)                                                                        \
            for (size_t n = 0; n < count; n++) ((uint8_t *)to)[n] = ((const uint8_t *)from)[n];                     \
        else                                                                                                        \
            for (size_t n = count; n > 0; n--) ((uint8_t *)to)[n - 1] = ((const uint8_t *)from)[n - 1];             \
        return to;                                                                                                  \
    }                                                                                                               \
    __attribute__((weak, no_builtin)) void *memset(void *to, int byte, size_t count)                                \
    {                                                                                                               \
        for (size_t n = 0; n < count; n++) ((uint8_t *)to)[n] = (uint8_t)byte;                                      \
        return to;                                                                                                  \
    }                                                                                                               \
    __attribute__((weak, no_builtin)) int memcmp(const void *a, const void *b, size_t count)                        \
    {                                                                                                               \
        for (size_t n = 0; n < count; n++)                                                                          \
            if (((const uint8_t *)a)[n] != ((const uint8_t *)b)[n])                                                 \
                return ((const uint8_t *)a)[n] < ((const uint8_t *)b)[n] ? -1 : 1;                                  \
        return 0;                                                                                                   \
    }

/* The records of the batch. */
static inline struct sf_record *sf_records(void)
{
    return sf_batch_records;
}

/* Where the packet window begins. A loop keeps it in a variable, for sf_at. */
static inline uint8_t *sf_window(void)
{
    return (uint8_t *)SF_WINDOW_BASE;
}

/* The byte at a guest address inside the window. */
static inline uint8_t *sf_at(uint8_t *window, uint32_t address)
{
    (void)window;
    return (uint8_t *)address;
}

#endif

/* The packet's first byte; record->length bytes are good. Writing needs `access: write` in the manifest: without it a
 * store ends the function. */
static inline uint8_t *sf_data(const struct sf_record *record)
{
    return sf_at(sf_window(), record->buffer + record->offset);
}

/* ---- Bytes: unaligned loads and stores; `be` is network byte order -------------------------------------------- */

static inline uint16_t sf_load16be(const uint8_t *at)
{
    return (uint16_t)((uint16_t)at[0] << 8 | at[1]);
}

static inline uint32_t sf_load32be(const uint8_t *at)
{
    return (uint32_t)sf_load16be(at) << 16 | sf_load16be(at + 2);
}

static inline uint32_t sf_load32(const uint8_t *at)
{
    uint32_t value;
    __builtin_memcpy(&value, at, sizeof value);
    return value;
}

static inline uint64_t sf_load64(const uint8_t *at)
{
    uint64_t value;
    __builtin_memcpy(&value, at, sizeof value);
    return value;
}

static inline void sf_store16be(uint8_t *at, uint16_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static inline void sf_store32be(uint8_t *at, uint32_t value)
{
    sf_store16be(at, (uint16_t)(value >> 16));
    sf_store16be(at + 2, (uint16_t)value);
}

static inline void sf_store32(uint8_t *at, uint32_t value)
{
    __builtin_memcpy(at, &value, sizeof value);
}

static inline void sf_store64(uint8_t *at, uint64_t value)
{
    __builtin_memcpy(at, &value, sizeof value);
}

/* ---- Configuration: CBOR of definite lengths, without tags (RFC 8949) ------------------------------------------
 *
 * The host has checked it against the manifest's schema and filled in defaults. The readers check it again, because it
 * is their business not to read outside of it, wherever it comes from.
 *
 *     schema                          CBOR                              reader
 *     boolean                         true, false                       sf_as_bool
 *     integer                         integer                           sf_as_integer
 *     duration (ns), size (bytes)     unsigned integer                  sf_as_unsigned
 *     string, enum                    text                              sf_as_text
 *     mac                             6 bytes                           sf_as_mac
 *     address                         4 or 16 bytes                     sf_as_bytes
 *     prefix                          [4 or 16 bytes, length in bits]   sf_list_open
 *     port_range                      [first, last]                     sf_list_open
 *     list, map                       array, map with text keys         sf_list_open, sf_map_get
 */

/* Reading a configuration is no hot path: one copy of each reader keeps modules small. Internal. */
#define SF_COLD_ __attribute__((unused, noinline)) static

/* One item at `at`, somewhere inside bytes that end at `end`. */
struct sf_value {
    const uint8_t *at;
    const uint8_t *end;
};

/* What a look-up by key, or a step in a list, came to. */
enum sf_found {
    SF_INVALID = -1, /* the bytes are no CBOR of the kind asked for */
    SF_ABSENT = 0,   /* no such key; no further item. Results are as they were */
    SF_FOUND = 1,
};

/* The head of an item: its major type and its argument. Internal. */
SF_COLD_ bool sf_head_(struct sf_value *value, uint32_t *major, uint64_t *argument)
{
    if (value->at >= value->end)
        return false;
    uint8_t first = *value->at++;
    *major = first >> 5;
    uint32_t low = first & 31;
    if (low < 24) {
        *argument = low;
        return true;
    }
    if (low > 27) /* reserved, or of indefinite length */
        return false;
    uint32_t bytes = 1u << (low - 24);
    if ((size_t)(value->end - value->at) < bytes)
        return false;
    *argument = 0;
    for (; bytes > 0; bytes--)
        *argument = *argument << 8 | *value->at++;
    return true;
}

/* Moves behind one item, whatever is in it. Internal. Without recursion: `open` counts the items still to come, each of
 * which takes a byte at least, so it never exceeds the bytes left. */
SF_COLD_ bool sf_skip_(struct sf_value *value)
{
    for (uint64_t open = 1; open > 0; open--) {
        uint32_t major;
        uint64_t argument;
        if (!sf_head_(value, &major, &argument))
            return false;
        uint64_t left = (uint64_t)(value->end - value->at);
        if (major == 2 || major == 3) {
            if (argument > left)
                return false;
            value->at += argument;
        } else if (major == 4 || major == 5) {
            if (argument > left)
                return false;
            open += major == 5 ? 2 * argument : argument;
            if (open > left + 1)
                return false;
        } else if (major == 6) {
            return false;
        }
    }
    return true;
}

SF_COLD_ bool sf_as_bool(struct sf_value value, bool *out)
{
    if (value.at >= value.end || (*value.at != 0xf4 && *value.at != 0xf5))
        return false;
    *out = *value.at == 0xf5;
    return true;
}

SF_COLD_ bool sf_as_unsigned(struct sf_value value, uint64_t *out)
{
    uint32_t major;
    uint64_t argument;
    if (!sf_head_(&value, &major, &argument) || major != 0)
        return false;
    *out = argument;
    return true;
}

SF_COLD_ bool sf_as_integer(struct sf_value value, int64_t *out)
{
    uint32_t major;
    uint64_t argument;
    if (!sf_head_(&value, &major, &argument) || major > 1 || argument > (uint64_t)INT64_MAX)
        return false;
    *out = major == 0 ? (int64_t)argument : -1 - (int64_t)argument;
    return true;
}

/* Text or bytes of a major type. Internal. */
SF_COLD_ bool sf_as_string_(struct sf_value value, uint32_t wanted, const uint8_t **out, uint32_t *length)
{
    uint32_t major;
    uint64_t argument;
    if (!sf_head_(&value, &major, &argument) || major != wanted)
        return false;
    if (argument > (uint64_t)(value.end - value.at) || argument > UINT32_MAX)
        return false;
    *out = value.at;
    *length = (uint32_t)argument;
    return true;
}

/* `*out` is not terminated by a zero. */
SF_COLD_ bool sf_as_text(struct sf_value value, const char **out, uint32_t *length)
{
    const uint8_t *bytes;
    if (!sf_as_string_(value, 3, &bytes, length))
        return false;
    *out = (const char *)bytes;
    return true;
}

SF_COLD_ bool sf_as_bytes(struct sf_value value, const uint8_t **out, uint32_t *length)
{
    return sf_as_string_(value, 2, out, length);
}

SF_COLD_ bool sf_as_mac(struct sf_value value, uint8_t out[6])
{
    const uint8_t *bytes;
    uint32_t length;
    if (!sf_as_bytes(value, &bytes, &length) || length != 6)
        return false;
    for (uint32_t n = 0; n < 6; n++)
        out[n] = bytes[n];
    return true;
}

/* Whether a text equals a zero-terminated one. */
SF_COLD_ bool sf_text_equals(const char *text, uint32_t length, const char *wanted)
{
    for (uint32_t n = 0; n < length; n++)
        if (wanted[n] == 0 || text[n] != wanted[n])
            return false;
    return wanted[length] == 0;
}

/* Looks a key up in a map; the first one counts. */
SF_COLD_ enum sf_found sf_map_get(struct sf_value map, const char *key, struct sf_value *out)
{
    uint32_t major;
    uint64_t pairs;
    if (!sf_head_(&map, &major, &pairs) || major != 5)
        return SF_INVALID;
    for (; pairs > 0; pairs--) {
        const char *text;
        uint32_t length;
        if (!sf_as_text(map, &text, &length))
            return SF_INVALID;
        map.at = (const uint8_t *)text + length;
        struct sf_value found = map;
        if (!sf_skip_(&map))
            return SF_INVALID;
        if (sf_text_equals(text, length, key)) {
            *out = found;
            return SF_FOUND;
        }
    }
    return SF_ABSENT;
}

/* A list being read. */
struct sf_list {
    struct sf_value next;
    uint64_t left;
};

/* Begins to read a list; false when the value is none. */
SF_COLD_ bool sf_list_open(struct sf_value value, struct sf_list *list)
{
    uint32_t major;
    if (!sf_head_(&value, &major, &list->left) || major != 4)
        return false;
    list->next = value;
    return true;
}

/* The next item of a list. */
SF_COLD_ enum sf_found sf_list_next(struct sf_list *list, struct sf_value *out)
{
    if (list->left == 0)
        return SF_ABSENT;
    struct sf_value item = list->next;
    if (!sf_skip_(&list->next))
        return SF_INVALID;
    list->left--;
    *out = item;
    return SF_FOUND;
}

/* Reads the configuration into `space`, which stays in use for as long as `config` does. False when there is none, when
 * it does not fit, or when it is not a map. */
SF_COLD_ bool sf_config_open(struct sf_value *config, uint8_t *space, uint32_t capacity)
{
    int32_t length = sf_read(SF_STREAM_CONFIG, 0, space, capacity);
    if (length <= 0 || (uint32_t)length > capacity)
        return false;
    config->at = space;
    config->end = space + length;
    return *space >> 5 == 5;
}

/* Readers of the configuration's own keys. When the key is absent, results are as they were: set defaults first. */
#define SF_CONFIG_READER_(name, read, ...)                       \
    {                                                            \
        struct sf_value value;                                   \
        enum sf_found found = sf_map_get(*config, key, &value);  \
        if (found != SF_FOUND)                                   \
            return found;                                        \
        return read(value, __VA_ARGS__) ? SF_FOUND : SF_INVALID; \
    }

SF_COLD_ enum sf_found sf_config_bool(const struct sf_value *config, const char *key, bool *out)
SF_CONFIG_READER_(bool, sf_as_bool, out)

SF_COLD_ enum sf_found sf_config_integer(const struct sf_value *config, const char *key, int64_t *out)
SF_CONFIG_READER_(integer, sf_as_integer, out)

SF_COLD_ enum sf_found sf_config_unsigned(const struct sf_value *config, const char *key, uint64_t *out)
SF_CONFIG_READER_(unsigned, sf_as_unsigned, out)

SF_COLD_ enum sf_found sf_config_text(const struct sf_value *config, const char *key, const char **out,
                                      uint32_t *length)
SF_CONFIG_READER_(text, sf_as_text, out, length)

SF_COLD_ enum sf_found sf_config_bytes(const struct sf_value *config, const char *key, const uint8_t **out,
                                       uint32_t *length)
SF_CONFIG_READER_(bytes, sf_as_bytes, out, length)

SF_COLD_ enum sf_found sf_config_mac(const struct sf_value *config, const char *key, uint8_t out[6])
SF_CONFIG_READER_(mac, sf_as_mac, out)

#undef SF_CONFIG_READER_

#endif
