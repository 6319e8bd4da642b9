/* SPDX-License-Identifier: Apache-2.0
 *
 * A native network function: what comes by one port leaves by the other.
 *
 *     cc -O2 -Iinclude examples/native/forwarder.c -lsuperfluid_native -o forwarder
 *     ./forwarder /run/superfluid/in.sock /run/superfluid/out.sock
 *
 * Packets are not copied and not looked at. What a port has no room for is given back.
 */
#include "superfluid_native.h"

#include <stdio.h>

#define BATCH 64

int main(int arguments, char **argument)
{
    sfn_attachment *ports[2];
    if (arguments != 3) {
        fprintf(stderr, "usage: %s SOCKET SOCKET\n", argument[0]);
        return 1;
    }
    for (int n = 0; n < 2; n++) {
        char reason[600];
        if (sfn_attach(SFN_VERSION, argument[n + 1], &ports[n], reason, sizeof reason) != 0) {
            fprintf(stderr, "%s: %s\n", argument[n + 1], reason);
            return 1;
        }
    }
    if (!sfn_same_pool(ports[0], ports[1])) {
        fprintf(stderr, "the ports belong to different tenants\n");
        return 1;
    }
    for (;;) {
        uint32_t all = 0;
        for (int n = 0; n < 2; n++) {
            struct sfn_packet packets[BATCH];
            uint32_t count = sfn_receive(ports[n], packets, BATCH);
            uint32_t sent = sfn_send(ports[!n], packets, count);
            sfn_release(ports[n], packets + sent, count - sent);
            all += count;
        }
        if (all == 0 && sfn_wait(ports, 2, -1) == SFN_CLOSED)
            return 0;
    }
}
