/* The network function NAME: drops every packet that is longer than a limit, passes the rest. */
#include "superfluid.h"

/* Index in the manifest's drop_reasons, and in its counters. */
#define TOO_LONG 0
#define PASSED 0

/* One instance; zeroed at first. */
struct function {
    uint64_t longest;
};

SF_FUNCTION(struct function)

SF_EXPORT(sf_init)
int32_t sf_init(void)
{
    uint8_t space[256];
    struct sf_value config;
    /* The schema in function.yaml has been checked, so the key is there and in its bounds. */
    if (!sf_config_open(&config, space, sizeof space) ||
        sf_config_unsigned(&config, "longest", &sf_self()->longest) != SF_FOUND) {
        sf_log(SF_LOG_ERROR, "the configuration does not match the schema");
        return 1;
    }
    return 0;
}

SF_EXPORT(sf_process)
void sf_process(uint32_t count, uint64_t now)
{
    (void)now;
    struct sf_record *record = sf_records();
    uint64_t passed = 0;
    for (uint32_t n = 0; n < count; n++, record++) {
        /* sf_data(record) is the frame from its Ethernet header on. */
        bool fits = record->length <= sf_self()->longest;
        record->verdict = fits ? sf_interface(record->ingress ^ 1) : sf_drop(TOO_LONG);
        passed += fits;
    }
    sf_counter_add(PASSED, passed);
}
