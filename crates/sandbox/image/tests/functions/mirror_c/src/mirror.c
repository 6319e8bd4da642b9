/* The same function in C without SF_FUNCTION, so that what clang emits is tested as it is. */
#include "superfluid.h"

static struct sf_record batch[SF_MAX_BATCH], kept[SF_MAX_BATCH];

__attribute__((import_module("superfluid_v1"), import_name("timer_set"))) int32_t timer_set(uint64_t deadline);

static uint32_t even(uint32_t turn) { return turn / 2; }
static uint32_t odd(uint32_t turn) { return turn * 3 + 1; }
static uint32_t (*volatile handlers[2])(uint32_t) = {even, odd};

__attribute__((export_name("sf_batch"))) uint32_t sf_batch(void) { return (uint32_t)(uintptr_t)batch; }

__attribute__((export_name("sf_init"))) int32_t mirror_init(void) { return timer_set(1); }

__attribute__((export_name("sf_process"))) void mirror_process(uint32_t count, uint64_t now)
{
    __builtin_memcpy(kept, batch, count * sizeof *batch);
    __builtin_memmove(batch + 1, batch, (count - 1) * sizeof *batch);
    batch[0] = kept[count - 1];
    __builtin_memset(kept + count, 0x5a, (SF_MAX_BATCH - count) * sizeof *batch);
    for (uint32_t n = 0; n < count; n++) {
        batch[n].verdict = 2;
        uint32_t *mark = (uint32_t *)&batch[n].mark;
        *mark = handlers[now % 2](*mark);
    }
}

__attribute__((export_name("kept"))) uint32_t mirror_kept(void) { return (uint32_t)(uintptr_t)kept; }
