/* fail_nth - makes the n-th call of one function of the C library, or of a pool of buffers, fail,
 * and counts what was taken. The linker redirects every call of these functions in the product to
 * this file (--wrap); calls inside the C library itself are not affected. Layer: test. Threads:
 * any; the counts are
 * atomic. */
#ifndef TEST_KILL_FAIL_NTH_H
#define TEST_KILL_FAIL_NTH_H

#include <stdint.h>

/* X(name, result on failure, errno then). Functions with an optional last argument, and those that
 * take or give back, are written by hand. */
#define NTH_PLAIN(X)                                                                               \
	X(int, socket, -1, EMFILE, (int a, int b, int c), (a, b, c))                               \
	X(int, bind, -1, EADDRINUSE, (int fd, const void *at, unsigned len), (fd, at, len))        \
	X(int, listen, -1, EADDRINUSE, (int fd, int n), (fd, n))                                   \
	X(int, connect, -1, ENOBUFS, (int fd, const void *at, unsigned len), (fd, at, len))        \
	X(int, accept4, -1, EMFILE, (int fd, void *at, void *len, int flags),                      \
	  (fd, at, len, flags))                                                                    \
	X(int, setsockopt, -1, ENOPROTOOPT,                                                        \
	  (int fd, int level, int what, const void *value, unsigned len),                          \
	  (fd, level, what, value, len))                                                           \
	X(int, getsockopt, -1, ENOPROTOOPT, (int fd, int level, int what, void *value, void *len), \
	  (fd, level, what, value, len))                                                           \
	X(int, getsockname, -1, ENOBUFS, (int fd, void *at, void *len), (fd, at, len))             \
	X(int, epoll_create1, -1, EMFILE, (int flags), (flags))                                    \
	X(int, epoll_ctl, -1, ENOSPC, (int fd, int what, int of, void *event),                     \
	  (fd, what, of, event))                                                                   \
	X(int, epoll_wait, -1, EINTR, (int fd, void *event, int n, int ms), (fd, event, n, ms))    \
	X(int, poll, -1, EINTR, (void *fds, unsigned long n, int ms), (fds, n, ms))                \
	X(int, eventfd, -1, EMFILE, (unsigned value, int flags), (value, flags))                   \
	X(int, timerfd_create, -1, EMFILE, (int clock, int flags), (clock, flags))                 \
	X(int, memfd_create, -1, EMFILE, (const char *name, unsigned flags), (name, flags))        \
	X(int, ftruncate, -1, ENOSPC, (int fd, long len), (fd, len))                               \
	X(int, mkdir, -1, ENOSPC, (const char *path, unsigned mode), (path, mode))                 \
	X(int, stat, -1, EACCES, (const char *path, void *st), (path, st))                         \
	X(int, lstat, -1, EACCES, (const char *path, void *st), (path, st))                        \
	X(int, fstat, -1, ENOMEM, (int fd, void *st), (fd, st))                                    \
	X(int, fstatfs, -1, ENOMEM, (int fd, void *st), (fd, st))                                  \
	X(int, fchmod, -1, EPERM, (int fd, unsigned mode), (fd, mode))                             \
	X(int, flock, -1, EINTR, (int fd, int what), (fd, what))                                   \
	X(int, madvise, -1, EINVAL, (void *at, unsigned long len, int what), (at, len, what))      \
	X(int, sched_getaffinity, -1, EINVAL, (int pid, unsigned long len, void *set),             \
	  (pid, len, set))                                                                         \
	X(long, sendmsg, -1, ENOBUFS, (int fd, const void *m, int flags), (fd, m, flags))          \
	X(int, sendmmsg, -1, ENOBUFS, (int fd, void *m, unsigned n, int flags), (fd, m, n, flags)) \
	X(long, recvmsg, -1, ENOBUFS, (int fd, void *m, int flags), (fd, m, flags))                \
	X(int, recvmmsg, -1, ECONNREFUSED, (int fd, void *m, unsigned n, int flags, void *t),      \
	  (fd, m, n, flags, t))                                                                    \
	X(long, send, -1, ENOBUFS, (int fd, const void *p, unsigned long n, int flags),            \
	  (fd, p, n, flags))                                                                       \
	X(long, recv, -1, EINTR, (int fd, void *p, unsigned long n, int flags), (fd, p, n, flags)) \
	X(int, pthread_create, EAGAIN, EAGAIN, (void *t, const void *attr, void *run, void *arg),  \
	  (t, attr, run, arg))
#define NTH_OWN(X)                                                                                 \
	X(malloc)                                                                                  \
	X(calloc)                                                                                  \
	X(realloc)                                                                                 \
	X(aligned_alloc)                                                                           \
	X(strdup)                                                                                  \
	X(mmap)                                                                                    \
	X(open)                                                                                    \
	X(fcntl)                                                                                   \
	X(ioctl)                                                                                   \
	X(getaddrinfo)                                                                             \
	X(getifaddrs)                                                                              \
	X(lend_buf_take)                                                                           \
	X(lend_buf_wrap)                                                                           \
	X(lend_bufs_take_slow)                                                                     \
	X(lend_bufs_handle)

enum nth {
#define X(ret, name, ...) NTH_##name,
	NTH_PLAIN(X)
#undef X
#define X(name) NTH_##name,
	    NTH_OWN(X)
#undef X
		NTH_COUNT
};
extern const char *const nth_name[NTH_COUNT];

enum { NTH_FOR_GOOD = 1 << 30 };
/* The n-th call of `which` fails from now on, and the following ones up to n + streak - 1; n 0:
 * none. Resets the counts. */
void nth_arm(enum nth which, uint32_t n, uint32_t streak);
uint32_t nth_calls(enum nth which);
/* Blocks and bytes that were taken and not given back. */
int64_t nth_blocks(void);
int64_t nth_mapped(void);

#endif
