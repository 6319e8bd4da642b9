/* SPDX-License-Identifier: Apache-2.0
 *
 * superfluid_native_function.h - runs the source of a function that builds to WebAssembly as a native process.
 *
 *     cc -DSF_NATIVE -include superfluid_native_function.h forwarder.c -lsuperfluid_native -o forwarder
 *     ./forwarder /run/superfluid/in.sock /run/superfluid/out.sock
 *
 * The sockets are those of the function's interfaces, in the order of its manifest. Verdicts are carried out: interface
 * sends by that interface's port, all others end the packet. Log lines go to standard error.
 *
 * The configuration is what `--config FILE` holds, in CBOR as docs/nf-abi.md says, or empty; `--set KEY=VALUE` adds a key
 * of its first level: digits are a number, `true` and `false` booleans, all else is a text.
 *
 * Devices and neighbours are those behind the ports: sf_devices is called when they change, sf_ask asks.
 *
 * Limits: the manifest is not read, so that nothing is checked or set by its schema. There are no services, slots (hold,
 * sf_packet_new), events, reports and state here: the calls answer that there are none, and a packet with such a verdict is
 * released. All ports are of one tenant.
 */
#ifndef SUPERFLUID_NATIVE_FUNCTION_H
#define SUPERFLUID_NATIVE_FUNCTION_H

#include "superfluid.h"
#include "superfluid_native.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* Most interfaces of a function here. */
#define SFN_INTERFACES 8u

__attribute__((weak)) void sf_timer(uint64_t now);
__attribute__((weak)) void sf_devices(uint64_t now);

struct sfn_function_ {
    uint8_t config[65536];
    uint32_t config_length;
    uint8_t random[SF_RANDOM];
    uint32_t count;
    sfn_attachment *ports[SFN_INTERFACES];
    /* What is behind them all, and how many bytes of it there are. */
    struct sfn_device *devices;
    uint32_t devices_length;
    uint64_t deadline;
};

/* Appends an item of CBOR with the shortest head, and the bytes of a text; false when there is no room. */
static int sfn_item_(struct sfn_function_ *self, uint32_t major, uint64_t argument, const void *bytes)
{
    static const uint8_t low[] = {0, 24, 25, 0, 26, 0, 0, 0, 27};
    uint32_t width = argument < 24 ? 0 : argument <= UINT8_MAX ? 1 : argument <= UINT16_MAX ? 2
                   : argument <= UINT32_MAX ? 4 : 8;
    uint64_t length = bytes ? argument : 0;
    if (length > sizeof self->config || self->config_length + 1u + width + length > sizeof self->config)
        return 0;
    uint8_t *out = self->config + self->config_length;
    *out++ = (uint8_t)(major << 5 | (width ? low[width] : argument));
    for (uint32_t n = 0; n < width; n++)
        *out++ = (uint8_t)(argument >> 8 * (width - 1 - n));
    if (length > 0)
        memcpy(out, bytes, length);
    self->config_length += 1u + width + (uint32_t)length;
    return 1;
}

/* Adds a KEY=VALUE to the configuration; false when it is none, or the configuration is not a map of less than 23 keys. */
static int sfn_set_(struct sfn_function_ *self, const char *pair)
{
    const char *value = strchr(pair, '=');
    if (value == NULL || value == pair || self->config_length == 0 || self->config[0] < 0xa0 || self->config[0] > 0xb6)
        return 0;
    self->config[0]++;
    if (!sfn_item_(self, 3, (uint64_t)(value - pair), pair))
        return 0;
    value++;
    size_t length = strlen(value);
    if (length > 0 && length < 20 && strspn(value, "0123456789") == length)
        return sfn_item_(self, 0, strtoull(value, NULL, 10), NULL);
    if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0)
        return sfn_item_(self, 7, *value == 't' ? 21 : 20, NULL);
    return sfn_item_(self, 3, length, value);
}

/* Gathers what is behind the ports, where that has changed; whether it has. */
static int sfn_gather_(struct sfn_function_ *self)
{
    uint32_t changed = 0, entries = 0, done = 0;
    for (uint32_t n = 0; n < self->count; n++) {
        changed |= (uint32_t)sfn_devices_changed(self->ports[n]);
        entries += sfn_devices(self->ports[n], NULL, 0);
    }
    if (!changed)
        return 0;
    struct sfn_device *all = realloc(self->devices, (entries + 1u) * sizeof *all);
    if (all == NULL)
        return 0;
    self->devices = all;
    for (uint32_t n = 0; n < self->count; n++) {
        uint32_t own = sfn_devices(self->ports[n], all + done, entries - done);
        for (uint32_t end = done + own; done < end; done++)
            all[done].interface = (uint16_t)n;
    }
    self->devices_length = done * (uint32_t)sizeof *all;
    return 1;
}

static int32_t sfn_read_(void *context, uint32_t stream, uint32_t offset, void *address, uint32_t capacity)
{
    struct sfn_function_ *self = context;
    const void *whole = self->config;
    uint32_t length = self->config_length;
    if (stream == SF_STREAM_DEVICES)
        whole = self->devices, length = self->devices_length;
    else if (stream == SF_STREAM_RANDOM)
        whole = self->random, length = SF_RANDOM;
    else if (stream != SF_STREAM_CONFIG)
        return SF_ERROR_STREAM;
    if (offset < length && capacity > 0) {
        uint32_t left = length - offset;
        memcpy(address, (const uint8_t *)whole + offset, left < capacity ? left : capacity);
    }
    return (int32_t)length;
}

static int32_t sfn_write_(void *context, uint32_t stream, const void *address, uint32_t length)
{
    struct sfn_function_ *self = context;
    if (stream == SF_STREAM_DEVICES) {
        struct sf_device_entry ask;
        if (length != sizeof ask)
            return SF_ERROR_RANGE;
        memcpy(&ask, address, sizeof ask);
        if (ask.kind != SF_DEVICE_NEIGHBOUR || ask.interface >= self->count)
            return SF_ERROR_RANGE;
        int answer = sfn_ask(self->ports[ask.interface], ask.family, ask.address);
        return answer == 0 ? 0 : answer == SFN_LIMIT ? SF_ERROR_LIMIT : SF_ERROR_RANGE;
    }
    if (stream < SF_LOG_ERROR || stream > SF_LOG_DEBUG)
        return SF_ERROR_STREAM;
    fprintf(stderr, "%.*s\n", (int)length, (const char *)address);
    return 0;
}

static int32_t sfn_counter_add_(void *context, uint32_t index, uint64_t amount)
{
    (void)context, (void)index, (void)amount;
    return 0;
}

static uint32_t sfn_packet_new_(void *context, uint32_t slot, const void *address, uint32_t length)
{
    (void)context, (void)slot, (void)address, (void)length;
    return 0;
}

static int32_t sfn_packet_emit_(void *context, uint32_t slot, uint32_t verdict, int32_t offset, uint32_t length,
                                uint64_t mark)
{
    (void)context, (void)slot, (void)verdict, (void)offset, (void)length, (void)mark;
    return SF_ERROR_SLOT;
}

static int32_t sfn_timer_set_(void *context, uint64_t deadline)
{
    ((struct sfn_function_ *)context)->deadline = deadline;
    return 0;
}

static uint64_t sfn_now_(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Sends packets; what there is no room for waits, and the function with it, as in a sandbox. Answers how many were sent: all,
 * unless a port was closed. */
static uint32_t sfn_send_all_(sfn_attachment **ports, uint32_t count, uint32_t out, const struct sfn_packet *packets,
                              uint32_t length)
{
    uint32_t sent = sfn_send(ports[out], packets, length);
    while (sent < length) {
        struct sfn_interest interests[SFN_INTERFACES];
        for (uint32_t n = 0; n < count; n++)
            interests[n] = (struct sfn_interest){ports[n], n == out ? SFN_SEND : 0};
        if (sfn_poll(interests, count, -1) == SFN_CLOSED)
            break;
        sent += sfn_send(ports[out], packets + sent, length - sent);
    }
    return sent;
}

/* One batch of one interface through the function. */
static void sfn_batch_(sfn_attachment **ports, uint32_t count, uint32_t ingress, struct sf_native *native)
{
    struct sfn_packet packets[SF_MAX_BATCH];
    uint32_t received = sfn_receive(ports[ingress], packets, SF_MAX_BATCH);
    if (received == 0)
        return;
    uint64_t now = sfn_now_();
    for (uint32_t n = 0; n < received; n++)
        native->records[n] = (struct sf_record){
            .offset = packets[n].offset,
            .length = packets[n].length,
            .buffer = SF_WINDOW_BASE + packets[n].buffer * sfn_buffer_size(ports[ingress]),
            .mark = packets[n].mark,
            .timestamp = now,
            .flow_hash = packets[n].flow_hash,
            .ingress = (uint16_t)ingress,
            .hop_budget = 1,
            .offload_flags = packets[n].flags,
            .gso_type = packets[n].gso_type,
            .gso_size = packets[n].gso_size,
            .csum_start = packets[n].csum_start,
            .csum_offset = packets[n].csum_offset,
        };
    sf_process(received, now);
    /* Packets in a row that go the same way are sent together. */
    for (uint32_t first = 0, next; first < received; first = next) {
        uint32_t verdict = native->records[first].verdict;
        for (next = first; next < received && native->records[next].verdict == verdict; next++) {
            packets[next].offset = native->records[next].offset;
            packets[next].length = native->records[next].length;
            packets[next].mark = native->records[next].mark;
        }
        uint32_t sent = 0, out = verdict >> 8;
        if ((verdict & 0xff) == SF_VERDICT_INTERFACE && out < count)
            sent = sfn_send_all_(ports, count, out, packets + first, next - first);
        sfn_release(ports[ingress], packets + first + sent, next - first - sent);
    }
}

int main(int arguments, char **argument)
{
    static struct sfn_function_ self = {.config = {0xa0}, .config_length = 1}; /* an empty map */
    static struct sf_record records[SF_MAX_BATCH];
    sfn_attachment **ports = self.ports;
    uint32_t count = 0;
    for (int n = 1; n < arguments; n++) {
        if (strcmp(argument[n], "--config") == 0 && n + 1 < arguments) {
            FILE *file = fopen(argument[++n], "rb");
            if (file == NULL) {
                perror(argument[n]);
                return 1;
            }
            self.config_length = (uint32_t)fread(self.config, 1, sizeof self.config, file);
            fclose(file);
            continue;
        }
        if (strcmp(argument[n], "--set") == 0 && n + 1 < arguments) {
            if (sfn_set_(&self, argument[++n]))
                continue;
            fprintf(stderr, "--set %s: allowed: KEY=VALUE, with 23 keys in all\n", argument[n]);
            return 1;
        }
        char reason[600];
        if (count == SFN_INTERFACES) {
            fprintf(stderr, "more than %u sockets\n", SFN_INTERFACES);
            return 1;
        }
        if (sfn_attach(SFN_VERSION, argument[n], &ports[count], reason, sizeof reason) != 0) {
            fprintf(stderr, "%s: %s\n", argument[n], reason);
            return 1;
        }
        if (count > 0 && !sfn_same_pool(ports[0], ports[count])) {
            fprintf(stderr, "%s: a port of another tenant than %s\n", argument[n], argument[1]);
            return 1;
        }
        self.count = ++count;
    }
    if (count == 0) {
        fprintf(stderr, "usage: %s [--config FILE] [--set KEY=VALUE]... SOCKET...\n", argument[0]);
        return 1;
    }
    if (getrandom(self.random, sizeof self.random, 0) != (ssize_t)sizeof self.random) {
        perror("getrandom");
        return 1;
    }
    struct sfn_packet none = {0};
    struct sf_native native = {
        .records = records,
        .window = sfn_data(ports[0], &none),
        .state = aligned_alloc(64, (sf_state_size + 63u) / 64u * 64u + 64u),
        .context = &self,
        .read = sfn_read_,
        .write = sfn_write_,
        .counter_add = sfn_counter_add_,
        .packet_new = sfn_packet_new_,
        .packet_emit = sfn_packet_emit_,
        .timer_set = sfn_timer_set_,
    };
    if (native.state == NULL)
        return 1;
    memset(native.state, 0, sf_state_size);
    sf_enter(&native);
    sfn_gather_(&self);
    if (sf_init() != 0) {
        fprintf(stderr, "the function did not start\n");
        return 1;
    }
    for (;;) {
        if (sfn_gather_(&self) && sf_devices != NULL)
            sf_devices(sfn_now_());
        for (uint32_t n = 0; n < count; n++)
            sfn_batch_(ports, count, n, &native);
        int32_t timeout = -1;
        if (self.deadline != 0 && sf_timer != NULL) {
            uint64_t now = sfn_now_();
            if (now >= self.deadline) {
                self.deadline = 0;
                sf_timer(now);
                continue;
            }
            uint64_t left = (self.deadline - now) / 1000000u + 1u;
            timeout = left < 1000u ? (int32_t)left : 1000;
        }
        if (sfn_wait(ports, count, timeout) == SFN_CLOSED)
            return 0;
    }
}

#endif
