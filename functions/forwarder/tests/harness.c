/* The tests' host of include/superfluid_test.h, tried by a function that does one of everything: what its writers of CBOR
 * write, the readers read; held and own packets, timers, streams and state come back as the function gave them. */
#include "superfluid_test.h"

struct function {
    uint64_t number;
    int64_t negative;
    bool flag;
    uint8_t mac[6];
    uint64_t sum;
};

SF_FUNCTION(struct function)

int32_t sf_init(void)
{
    struct function *self = sf_self();
    uint8_t space[512];
    struct sf_value config, value;
    const char *text;
    uint32_t length;
    if (!sf_config_open(&config, space, sizeof space))
        return 1;
    if (sf_config_unsigned(&config, "number", &self->number) != SF_FOUND)
        return 2;
    if (sf_map_get(config, "negative", &value) != SF_FOUND || !sf_as_integer(value, &self->negative))
        return 3;
    if (sf_map_get(config, "flag", &value) != SF_FOUND || !sf_as_bool(value, &self->flag))
        return 4;
    if (sf_map_get(config, "mac", &value) != SF_FOUND || !sf_as_mac(value, self->mac))
        return 5;
    if (sf_map_get(config, "text", &value) != SF_FOUND || !sf_as_text(value, &text, &length) || length != 300)
        return 6;
    if (sf_map_get(config, "absent", &value) != SF_ABSENT)
        return 7;
    return 0;
}

void sf_process(uint32_t count, uint64_t now)
{
    struct sf_record *records = sf_records();
    for (uint32_t n = 0; n < count; n++)
        records[n].verdict = sf_data(&records[n])[0] ? sf_hold((uint16_t)n) : sf_interface(1);
    sf_timer_set(now + 5);
}

void sf_timer(uint64_t now)
{
    (void)now;
    const uint8_t own[3] = {7, 8, 9};
    sf_counter_add(3, 11);
    sf_packet_emit(0, sf_interface(1), -1, 0, 42);
    sf_self()->sum = sf_packet_new(9, own, sizeof own) != 0;
    sf_packet_emit(9, sf_drop(2), -1, 0, 0);
}

int32_t sf_export_state(void)
{
    return sf_write(SF_STREAM_STATE, "state", 5);
}

static void configure(uint64_t number, int64_t negative)
{
    char text[301];
    memset(text, 'x', 300);
    text[300] = 0;
    sf_test_key("number"), sf_test_unsigned(number);
    sf_test_key("negative"), sf_test_integer(negative);
    sf_test_key("flag"), sf_test_bool(true);
    sf_test_key("mac"), sf_test_octets("\2\0\0\0\0\1", 6);
    sf_test_key("text"), sf_test_text(text);
    sf_test_key("inside"), sf_test_map(1), sf_test_text("list"), sf_test_list(2), sf_test_unsigned(1), sf_test_unsigned(2);
}

SF_TEST(every_kind_of_value_is_read_as_it_was_written)
{
    static const uint64_t numbers[] = {0, 23, 24, 255, 256, 65535, 65536, UINT32_MAX, 1ull << 32, UINT64_MAX};
    for (uint32_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
        sf_test.config_length = sf_test.config_keys = 0;
        int64_t negative = -1 - (int64_t)(numbers[n] >> 1);
        configure(numbers[n], negative);
        free(sf_test.memory);
        sf_test_begin();
        SF_EXPECT(sf_self()->number, numbers[n]);
        SF_EXPECT(sf_self()->negative, negative);
        SF_EXPECT(sf_self()->flag && sf_self()->mac[0] == 2 && sf_self()->mac[5] == 1, true);
    }
}

SF_TEST(what_it_holds_makes_and_sets_is_there_to_be_looked_at)
{
    configure(1, -1);
    sf_test_begin();
    sf_test_put(0, "\1held", 5, 0);
    sf_test_put(1, "\0gone", 5, 0);
    sf_test_process(2);
    SF_EXPECT(sf_test.slots[0].taken && !sf_test.slots[1].taken, true);
    SF_EXPECT(sf_test.deadline, sf_test.now + 5);
    sf_timer(sf_test.deadline);
    SF_EXPECT(sf_test.counters[3], 11);
    SF_EXPECT(sf_test.emitted_count, 2);
    SF_EXPECT(memcmp(sf_test.emitted[0].bytes, "\1held", 5), 0);
    SF_EXPECT(sf_test.emitted[0].verdict, sf_interface(1));
    SF_EXPECT(sf_test.emitted[0].mark, 42);
    SF_EXPECT(sf_test.emitted[1].length, 3);
    SF_EXPECT(sf_test.emitted[1].verdict, sf_drop(2));
    SF_EXPECT(sf_packet_emit(0, sf_interface(1), -1, 0, 0), SF_ERROR_SLOT);
    sf_test.refuse_packets = true;
    sf_timer(0);
    SF_EXPECT(sf_self()->sum, 0);
    SF_EXPECT(sf_export_state(), 0);
    SF_EXPECT(sf_test.state.length, 5);
    SF_EXPECT(sf_write(77, "x", 1), SF_ERROR_STREAM);
    sf_log(SF_LOG_INFO, "a line");
    SF_EXPECT(strcmp((const char *)sf_test.log.bytes, "a line\n"), 0);
}

SF_TEST(random_bytes_are_those_that_the_test_wrote)
{
    uint8_t found[SF_RANDOM];
    for (uint8_t n = 0; n < SF_RANDOM; n++)
        sf_test.random[n] = n + 1;
    configure(1, -1);
    sf_test_begin();
    SF_EXPECT(sf_random(found), true);
    SF_EXPECT(memcmp(found, sf_test.random, SF_RANDOM), 0);
}

SF_TEST(each_test_has_an_instance_of_its_own)
{
    SF_EXPECT(sf_test.random[0], 0);
    SF_EXPECT(sf_test.counters[3] + sf_test.emitted_count + sf_test.config_keys, 0);
    SF_EXPECT(sf_test_try(), 2);
}

int main(void)
{
    sf_test_run(every_kind_of_value_is_read_as_it_was_written, "values");
    sf_test_run(what_it_holds_makes_and_sets_is_there_to_be_looked_at, "packets");
    sf_test_run(random_bytes_are_those_that_the_test_wrote, "random");
    sf_test_run(each_test_has_an_instance_of_its_own, "instances");
    return 0;
}
