/* SPDX-License-Identifier: Apache-2.0
 *
 * A native network function: what comes by one port leaves by the other.
 *
 *     cc -O2 -Iinclude examples/native/forwarder.c -lsuperfluid_native -o forwarder
 *     ./forwarder /run/superfluid/in.sock /run/superfluid/out.sock
 *
 * Packets are not copied and not looked at. Where a port has no room, what goes that way waits, and what sends it is held back
 * before the process; the two directions do not wait for each other.
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
    /* What came by a port, and how much of it the other one has taken. */
    static struct {
        struct sfn_packet packets[BATCH];
        uint32_t count, sent;
    } from[2];
    for (;;) {
        int moved = 0;
        struct sfn_interest interests[2] = {{ports[0], 0}, {ports[1], 0}};
        for (int n = 0; n < 2; n++) {
            if (from[n].sent == from[n].count) {
                from[n].count = sfn_receive(ports[n], from[n].packets, BATCH);
                from[n].sent = 0;
            }
            uint32_t left = from[n].count - from[n].sent;
            uint32_t sent = sfn_send(ports[!n], from[n].packets + from[n].sent, left);
            from[n].sent += sent;
            moved |= sent > 0;
            if (left == 0)
                interests[n].events |= SFN_RECEIVE;
            else
                interests[!n].events |= SFN_SEND;
        }
        if (!moved && sfn_poll(interests, 2, -1) == SFN_CLOSED)
            return 0;
    }
}
