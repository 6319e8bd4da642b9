/* SPDX-License-Identifier: Apache-2.0
 *
 * A hostile process at a native port, without the library.
 *
 *     hostile scribble SOCKET SEED   writes random words all over the shared memory, until it is cut off
 *     hostile lie SOCKET SEED        sends and returns buffers that it does not have, by counts that are possible, for ever
 *     hostile devices SOCKET SEED    floods its socket for devices with asks, halves of them and garbage, and reads nothing
 *     hostile write SOCKET           tries to get a read-only pool written to; answers 0 when every way is barred
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static int descriptors[3];

static int attach(const char *path, int devices)
{
    size_t count = devices ? 3 : 2;
    int connection = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    if (connect(connection, (struct sockaddr *)&address, sizeof address) != 0)
        return -1;
    const char hello[16] = {'S', 'F', 'N', 'A', 'T', 'I', 'V', 'E', 1, 0, 0, 0, (char)devices};
    if (send(connection, hello, sizeof hello, 0) != sizeof hello)
        return -1;
    char answer[8192];
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof descriptors)] = {0};
    struct iovec bytes = {answer, sizeof answer};
    struct msghdr message = {
        .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if (recvmsg(connection, &message, 0) < 48)
        return -1;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    /* What does not ask for the third gets two, as before there was a third. */
    if (header == NULL || header->cmsg_len != CMSG_LEN(count * sizeof(int)))
        return -1;
    memcpy(descriptors, CMSG_DATA(header), count * sizeof(int));
    return connection;
}

static uint64_t state;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static int scribble(int connection, uint64_t seed)
{
    struct stat file;
    fstat(descriptors[1], &file);
    volatile uint32_t *words =
        mmap(NULL, (size_t)file.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptors[1], 0);
    if (words == MAP_FAILED)
        return 1;
    state = seed * 2654435769u + 1;
    size_t count = (size_t)file.st_size / 4;
    for (uint64_t round = 0;; round++) {
        uint64_t random = next();
        /* Counts of the rings more often than entries; small numbers more often than any, for they are possible ones. */
        size_t at = random % 4 == 0 ? (random >> 8) % count : ((random >> 8) % 10) * 16;
        uint32_t value = (uint32_t)next();
        words[at] = random % 3 == 0 ? value : random % 3 == 1 ? value % 64 : words[at] + 1;
        if (round % 64 == 0) {
            if (send(connection, "\3\0\0", 4, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EPIPE)
                return 0; /* it was cut off */
            usleep(50);
        }
    }
}

/* Counts that are possible, and entries that are not: any numbers of buffers, any extents. */
static int lie(uint64_t seed)
{
    struct stat file;
    fstat(descriptors[1], &file);
    volatile uint32_t *words =
        mmap(NULL, (size_t)file.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptors[1], 0);
    if (words == MAP_FAILED)
        return 1;
    state = seed * 2654435769u + 1;
    volatile uint32_t *tails[2] = {words + 0x80 / 4, words + 0x100 / 4};
    volatile uint32_t *heads[2] = {words + 0xc0 / 4, words + 0x140 / 4};
    size_t first = 0x1000 / 4, count = (size_t)file.st_size / 4 - first;
    for (;;) {
        for (uint32_t n = 0; n < 64; n++) {
            uint32_t value = (uint32_t)next();
            words[first + next() % count] = value % 3 == 0 ? value : value % 64;
        }
        words[0x240 / 4] = (uint32_t)next(); /* empty buffers wanted */
        uint32_t which = next() % 2;
        if (*tails[which] - *heads[which] < 32)
            *tails[which] += (uint32_t)(next() % 32);
        usleep(20);
    }
}

/* Asks that are good, cut short, too long or changed anywhere, as many as go, with descriptors now and then. */
static int flood(uint64_t seed)
{
    uint8_t message[8 + 65 * 32];
    state = seed * 2654435769u + 1;
    for (;;) {
        memset(message, 0, sizeof message);
        message[0] = 5;
        size_t entries = 1 + next() % 65, length = 8 + entries * 32;
        for (size_t n = 0; n < entries; n++) {
            uint8_t *entry = message + 8 + n * 32;
            entry[0] = 3, entry[1] = 4, entry[5] = 2;
            uint32_t address = (uint32_t)next();
            memcpy(entry + 16, &address, sizeof address);
        }
        switch (next() % 4) {
        case 0:
            length = next() % length;
            break;
        case 1:
            message[next() % length] = (uint8_t)next();
            break;
        default:
            break;
        }
        /* An empty message is the end of the connection. */
        if (length == 0)
            continue;
        if (next() % 8 != 0) {
            send(descriptors[2], message, length, MSG_DONTWAIT | MSG_NOSIGNAL);
            continue;
        }
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
        struct iovec bytes = {message, length};
        struct msghdr with = {
            .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        struct cmsghdr *header = CMSG_FIRSTHDR(&with);
        header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &descriptors[0], sizeof(int));
        sendmsg(descriptors[2], &with, MSG_DONTWAIT | MSG_NOSIGNAL);
        usleep(100);
    }
}

static int barred(const char *way, int got_through)
{
    if (got_through)
        fprintf(stderr, "%s: it can be written to\n", way);
    return !got_through;
}

static int try_to_write(void)
{
    int pool = descriptors[0], good = 1;
    struct stat file;
    fstat(pool, &file);
    size_t size = (size_t)file.st_size;
    void *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, pool, 0);
    good &= barred("mmap", shared != MAP_FAILED);
    void *reading = mmap(NULL, size, PROT_READ, MAP_SHARED, pool, 0);
    if (reading == MAP_FAILED)
        return 1;
    good &= barred("mprotect", mprotect(reading, size, PROT_READ | PROT_WRITE) == 0);
    good &= barred("pwrite", pwrite(pool, "x", 1, 0) == 1);
    good &= barred("ftruncate", ftruncate(pool, 4096) == 0);
    good &= barred("fallocate", fallocate(pool, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0);
    good &= barred("madvise", madvise(reading, size, MADV_REMOVE) == 0);
    good &= barred("seal", fcntl(pool, F_ADD_SEALS, F_SEAL_WRITE) == 0);
    /* Of the user that the memory belongs to nothing of this can be kept away, nor the memory itself. */
    if (geteuid() != file.st_uid) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", pool);
        good &= barred("open", open(path, O_RDWR) >= 0);
        good &= barred("fchmod", fchmod(pool, 0777) == 0);
        good &= barred("chmod", chmod(path, 0777) == 0);
        good &= barred("open again", open(path, O_WRONLY) >= 0);
    }
    return good ? 0 : 1;
}

int main(int arguments, char **argument)
{
    if (arguments < 3)
        return 2;
    int connection = attach(argument[2], strcmp(argument[1], "devices") == 0);
    if (connection < 0) {
        perror(argument[2]);
        return 2;
    }
    if (strcmp(argument[1], "write") == 0)
        return try_to_write();
    if (strcmp(argument[1], "devices") == 0)
        return flood(arguments > 3 ? strtoull(argument[3], NULL, 10) : 1);
    if (strcmp(argument[1], "lie") == 0)
        return lie(arguments > 3 ? strtoull(argument[3], NULL, 10) : 1);
    return scribble(connection, arguments > 3 ? strtoull(argument[3], NULL, 10) : 1);
}
