/* The function natively: what it decides, packet by packet. The Makefile says how it is compiled, sdk/superfluid_test.h
 * what a test can do. */
#include "superfluid_test.h"

static const uint8_t frame[600];

SF_TEST(long_packets_are_dropped)
{
    sf_test_key("longest"), sf_test_unsigned(500);
    sf_test_begin();
    sf_test_put(0, frame, 60, 0);
    sf_test_put(1, frame, 501, 0);
    sf_test_put(2, frame, 500, 1);
    sf_test_process(3);
    SF_EXPECT(sf_test.records[0].verdict, sf_interface(1));
    SF_EXPECT(sf_test.records[1].verdict, sf_drop(0));
    SF_EXPECT(sf_test.records[2].verdict, sf_interface(0));
    SF_EXPECT(sf_test.counters[0], 2);
}

SF_TEST(a_configuration_without_its_key_is_refused)
{
    SF_EXPECT(sf_test_try(), 1);
}

int main(void)
{
    sf_test_run(long_packets_are_dropped, "long_packets_are_dropped");
    sf_test_run(a_configuration_without_its_key_is_refused, "a_configuration_without_its_key_is_refused");
    return 0;
}
