/* SPDX-License-Identifier: Apache-2.0
 *
 * superfluid_native.h - network functions that are processes: packets of their tenant's pool, by rings that they share
 * with the engine.
 *
 * A function attaches to a port of type `native`, once for each of its interfaces. The life of a packet:
 *
 * 1. sfn_receive() takes it out of the ring. It is the process's until 3.
 * 2. sfn_data() is where its bytes lie, in the pool itself: nothing was copied.
 * 3. It ends by sfn_send(), of any attachment to the same pool, or by sfn_release().
 *
 *     #include <superfluid_native.h>
 *
 *     sfn_attachment *in, *out;
 *     char reason[256];
 *     if (sfn_attach(SFN_VERSION, "/run/superfluid/in.sock", &in, reason, sizeof reason) != 0) ...
 *     struct sfn_packet packets[64];
 *     uint32_t count = 0, sent = 0;
 *     for (;;) {
 *         if (sent == count) {
 *             count = sfn_receive(in, packets, 64);
 *             sent = 0;
 *         }
 *         sent += sfn_send(out, packets + sent, count - sent);
 *         if (count > 0 && sent == count)
 *             continue;
 *         struct sfn_interest interests[] = {{in, count == 0 ? SFN_RECEIVE : 0}, {out, count == 0 ? 0 : SFN_SEND}};
 *         if (sfn_poll(interests, 2, -1) == SFN_CLOSED)
 *             break;
 *     }
 *
 * Compile with `cc program.c -lsuperfluid_native`, or with libsuperfluid_native.a and `-lpthread -ldl -lm`.
 * docs/native.md is the guide; examples/native/forwarder.c is a whole program. superfluid_native_function.h runs the
 * source of a function that builds to WebAssembly.
 *
 * Limits: C11 or C++, little-endian, Linux. An attachment is used by one thread at a time. The engine notes which buffers
 * the process has: a packet that is sent or released twice, or was never received, is a counted fault there and
 * nothing else. Layouts, numbers and functions of one SFN_VERSION never change.
 */
#ifndef SUPERFLUID_NATIVE_H
#define SUPERFLUID_NATIVE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the contract. Both ends compare it when a process attaches. */
#define SFN_VERSION 1u

/* What functions answer when they fail. */
#define SFN_VERSION_DIFFERS (-2) /* program and library, or library and port, are of different versions */
#define SFN_REFUSED (-3)         /* the port refused this process; the reason says why */
#define SFN_SYSTEM (-4)          /* the socket or the memory cannot be had; the reason says why */
#define SFN_ARGUMENT (-5)        /* a pointer is null, or a count zero */
#define SFN_CLOSED (-6)          /* the port was closed, or has cut the process off: detach, and attach again */
#define SFN_LIMIT (-7)           /* the engine takes no more at present */

/* sfn_packet.flags, as in virtio-net (Virtio 1.2, section 5.1.6). */
#define SFN_NEEDS_CHECKSUM 1u /* the checksum at csum_start + csum_offset is partial */
#define SFN_CHECKSUM_VALID 2u

/* One packet. From the process the engine takes buffer, mark and, if it may write, all but the flow hash. */
struct sfn_packet {
    uint32_t buffer;      /* number of the buffer in the pool */
    uint32_t offset;      /* the packet's first byte, from the buffer's first byte */
    uint32_t length;      /* bytes in the packet */
    uint32_t flow_hash;   /* equal for both directions of a flow; 0: not computed */
    uint64_t mark;        /* the tenant's own mark */
    uint8_t flags;        /* SFN_NEEDS_CHECKSUM, SFN_CHECKSUM_VALID */
    uint8_t gso_type;     /* as in virtio-net; 0: it is no segment that is still to be cut */
    uint16_t gso_size;    /* payload bytes per segment */
    uint16_t csum_start;  /* where checksumming starts, from the packet's first byte */
    uint16_t csum_offset; /* where the checksum is stored, from csum_start */
};

#ifdef __cplusplus
static_assert(sizeof(struct sfn_packet) == 32, "a packet is 32 bytes");
#else
_Static_assert(sizeof(struct sfn_packet) == 32, "a packet is 32 bytes");
_Static_assert(offsetof(struct sfn_packet, mark) == 16, "sfn_packet.mark is at 16");
_Static_assert(offsetof(struct sfn_packet, csum_offset) == 30, "sfn_packet.csum_offset is at 30");
#endif

/* sfn_device.kind. Others are passed over. */
#define SFN_DEVICE_INTERFACE 1u
#define SFN_DEVICE_ADDRESS 2u
#define SFN_DEVICE_NEIGHBOUR 3u
#define SFN_DEVICE_GATEWAY 4u

/* sfn_device.state of a neighbour. */
#define SFN_NEIGHBOUR_REACHABLE 1u
#define SFN_NEIGHBOUR_ASKED 2u
#define SFN_NEIGHBOUR_UNREACHABLE 3u

/* Something of the device behind a port: what functions read as sf_device_entry (docs/nf-abi.md). */
struct sfn_device {
    uint8_t kind;
    uint8_t family;      /* of the address: 4, 6; 0 without one */
    uint16_t interface;  /* 0: a port is one interface */
    uint8_t prefix;      /* of an address of the device's own: bits of its network's prefix */
    uint8_t state;       /* of the interface: 1 when the link is up; of a neighbour: SFN_NEIGHBOUR_ */
    uint8_t mac[6];      /* of the interface and a neighbour; zero: not known */
    uint32_t mtu;        /* of the interface, without the Ethernet header; 0: not known */
    uint8_t address[16]; /* an IPv4 address in the first four */
};

#ifdef __cplusplus
static_assert(sizeof(struct sfn_device) == 32, "an entry is 32 bytes");
#else
_Static_assert(sizeof(struct sfn_device) == 32, "an entry is 32 bytes");
_Static_assert(offsetof(struct sfn_device, mtu) == 12, "sfn_device.mtu is at 12");
_Static_assert(offsetof(struct sfn_device, address) == 16, "sfn_device.address is at 16");
#endif

/* An attachment to a port. */
typedef struct sfn_attachment sfn_attachment;

/* Attaches to the port at the socket `path`. `version` is SFN_VERSION. Answers 0 and sets `*out`, or an error; then
 * `reason`, which may be null, has why, in at most `capacity` bytes with a zero at the end. The calling thread has to live
 * as long as the attachment: where another process stands by, its end counts as the process's. */
int sfn_attach(uint32_t version, const char *path, sfn_attachment **out, char *reason, size_t capacity);

/* Ends an attachment. Its buffers stay the process's, for its other attachments to the pool, until the process ends. */
void sfn_detach(sfn_attachment *attachment);

/* Takes up to `capacity` packets; answers how many. Never waits. */
uint32_t sfn_receive(sfn_attachment *attachment, struct sfn_packet *out, uint32_t capacity);

/* Sends packets, in order; answers how many there was room for, from the first one on. The others stay the process's: it
 * sends them when sfn_poll has waited for room, so that what is before it waits as well, or gives them back. */
uint32_t sfn_send(sfn_attachment *attachment, const struct sfn_packet *packets, uint32_t count);

/* Gives buffers back; answers how many. There is room for all that the process can have. */
uint32_t sfn_release(sfn_attachment *attachment, const struct sfn_packet *packets, uint32_t count);

/* Makes packets of empty buffers, up to `capacity`, for processes that may write; answers how many. What is missing is asked
 * for and comes soon. `length` is the most that a packet may have: set it to what it has. */
uint32_t sfn_allocate(sfn_attachment *attachment, struct sfn_packet *out, uint32_t capacity);

/* Where the packet's bytes lie; null when it names no place in the pool. Only processes that may write may write there. */
uint8_t *sfn_data(const sfn_attachment *attachment, const struct sfn_packet *packet);

/* Sleeps until there is something to receive by one of `count` attachments, or its device has changed, for `timeout`
 * milliseconds at most; negative: for ever. Answers 1; 0 when the time is over, or a signal's handler has run; or SFN_CLOSED.
 * What a handler notes just before the sleep is seen after it: a program that is to end by a signal has a `timeout`, too. A
 * process that neither receives, sends nor waits for as long as the port's `heartbeat` says counts as hung. */
int sfn_wait(sfn_attachment *const *attachments, uint32_t count, int32_t timeout);

/* What is waited for by an attachment. */
#define SFN_RECEIVE 1u /* something to receive, or a change of the device behind the port */
#define SFN_SEND 2u    /* room for packets to send; a process that found none is woken when half of the ring is free */

struct sfn_interest {
    sfn_attachment *attachment;
    uint32_t events; /* SFN_RECEIVE, SFN_SEND, both, or 0: the engine is shown that the process lives, and no more */
};

/* As sfn_wait, for what each of `count` interests says. */
int sfn_poll(const struct sfn_interest *interests, uint32_t count, int32_t timeout);

/* Whether the device behind the port is not what it was when this was last called: its link, addresses, gateways, and the
 * neighbours that processes and functions of the tenant asked for. Never waits. */
int sfn_devices_changed(sfn_attachment *attachment);

/* Copies what is known of the device, as sfn_devices_changed or sfn_wait read it last, in order of kind and address; answers
 * how many entries there are, which may be more than `capacity`: 32768 at most, 0 where the port is at no device with addresses. */
uint32_t sfn_devices(const sfn_attachment *attachment, struct sfn_device *out, uint32_t capacity);

/* Asks for the MAC address of a neighbour: `family` is 4 or 6, `address` has 4 or 16 bytes. The answer is a change of the
 * device's entries; who sends to a neighbour asks again once a minute, because it is forgotten after five. Answers 0, or
 * SFN_LIMIT when the engine takes no more at present: ask again later. Never waits. */
int sfn_ask(const sfn_attachment *attachment, uint8_t family, const uint8_t *address);

/* Whether the process may write to packets. */
int sfn_may_write(const sfn_attachment *attachment);

/* The text that the operator wrote for the process, `*length` bytes without a zero at the end. */
const uint8_t *sfn_config(const sfn_attachment *attachment, uint32_t *length);

/* Bytes in a buffer of the pool. */
uint32_t sfn_buffer_size(const sfn_attachment *attachment);

/* Whether packets of one attachment may be sent by the other. */
int sfn_same_pool(const sfn_attachment *one, const sfn_attachment *other);

#ifdef __cplusplus
}
#endif

#endif
