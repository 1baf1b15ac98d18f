/*
 * A clock of its own for the processes of a server: loaded before the C library (LD_PRELOAD), it adds an offset to the time of day.
 * The offset is a number of microseconds in a file that is mapped, so that it may change at any moment.
 *
 * Everything here is safe in a signal handler: PostgreSQL looks at the clock in that of its timers. libfaketime opens a file and
 * allocates memory there when the offset may change, which now and then stops a server process for ever.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t *offset;

__attribute__((constructor)) static void map_offset(void)
{
    const char *name = getenv("LEASEHOLD_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *at = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    if (at != MAP_FAILED)
        offset = at;
    close(file);
}

int clock_gettime(clockid_t id, struct timespec *now)
{
    int failed = (int)syscall(SYS_clock_gettime, id, now);
    if (failed || !offset || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE))
        return failed;
    int64_t off = __atomic_load_n(offset, __ATOMIC_SEQ_CST);
    int64_t nanos = now->tv_nsec + off % 1000000 * 1000;
    now->tv_sec += off / 1000000;
    if (nanos < 0) {
        nanos += 1000000000;
        now->tv_sec--;
    } else if (nanos >= 1000000000) {
        nanos -= 1000000000;
        now->tv_sec++;
    }
    now->tv_nsec = nanos;
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec precise;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &precise))
        return -1;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now)
{
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (now)
        *now = precise.tv_sec;
    return precise.tv_sec;
}
