/* The function natively: what it decides, packet by packet. The Makefile says how it is compiled. */
#include "superfluid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sf_record records[SF_MAX_BATCH];
static uint64_t passed;

/* The configuration {"longest": 500} in CBOR. */
static const uint8_t config[] = {0xa1, 0x67, 'l', 'o', 'n', 'g', 'e', 's', 't', 0x19, 0x01, 0xf4};

static int32_t host_read(void *context, uint32_t stream, uint32_t offset, void *address, uint32_t capacity)
{
    (void)context;
    if (stream != SF_STREAM_CONFIG)
        return SF_ERROR_STREAM;
    uint32_t length = sizeof config;
    uint32_t rest = offset < length ? length - offset : 0;
    memcpy(address, config + (offset < length ? offset : 0), rest < capacity ? rest : capacity);
    return (int32_t)length;
}

static int32_t host_write(void *context, uint32_t stream, const void *address, uint32_t length)
{
    (void)context;
    fprintf(stderr, "stream %u: %.*s\n", stream, (int)length, (const char *)address);
    return 0;
}

static int32_t host_counter_add(void *context, uint32_t index, uint64_t amount)
{
    (void)context;
    if (index != 0)
        return SF_ERROR_COUNTER;
    passed += amount;
    return 0;
}

static void expect(const char *what, uint64_t found, uint64_t wanted)
{
    if (found != wanted) {
        fprintf(stderr, "%s: found %llu, wanted %llu\n", what, (unsigned long long)found, (unsigned long long)wanted);
        exit(1);
    }
}

int main(void)
{
    void *state = aligned_alloc(64, (sf_state_size + 63) / 64 * 64);
    uint8_t *window = calloc(4, 2048);
    if (!state || !window)
        return 1;
    memset(state, 0, sf_state_size);
    struct sf_native host = {
        .records = records,
        .window = window,
        .state = state,
        .read = host_read,
        .write = host_write,
        .counter_add = host_counter_add,
    };
    sf_enter(&host);
    expect("sf_init", (uint64_t)sf_init(), 0);

    const uint32_t lengths[] = {60, 501, 500};
    const uint16_t ingress[] = {0, 0, 1};
    for (uint32_t n = 0; n < 3; n++) {
        records[n] = (struct sf_record){
            .buffer = SF_WINDOW_BASE + n * 2048,
            .offset = 128,
            .length = lengths[n],
            .ingress = ingress[n],
        };
    }
    sf_process(3, 1000000000);
    expect("a short packet", records[0].verdict, sf_interface(1));
    expect("a long packet", records[1].verdict, sf_drop(0));
    expect("a packet of the limit", records[2].verdict, sf_interface(0));
    expect("the counter", passed, 2);
    puts("3 packets: good");
    free(window);
    free(state);
    return 0;
}
