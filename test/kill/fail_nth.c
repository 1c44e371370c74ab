#include "kill/fail_nth.h"

#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "rpc/bufs.h"
#include "sys/last_error.h"

const char *const nth_name[NTH_COUNT] = {
#define X(ret, name, ...) #name,
    NTH_PLAIN(X)
#undef X
#define X(name) #name,
	NTH_OWN(X)
#undef X
};

static _Atomic uint32_t calls[NTH_COUNT], armed, first, behind;
static _Atomic int64_t blocks, mapped;

void nth_arm(enum nth which, uint32_t n, uint32_t streak)
{
	atomic_store(&first, 0);
	for (int i = 0; i < NTH_COUNT; i++)
		atomic_store(&calls[i], 0);
	atomic_store(&armed, which);
	atomic_store(&behind, n + streak);
	atomic_store(&first, n);
}

uint32_t nth_calls(enum nth which)
{
	return atomic_load(&calls[which]);
}

int64_t nth_blocks(void)
{
	return atomic_load(&blocks);
}

int64_t nth_mapped(void)
{
	return atomic_load(&mapped);
}

static bool fails(enum nth which, int err)
{
	uint32_t n = atomic_fetch_add(&calls[which], 1) + 1, from = atomic_load(&first);

	if (!from || atomic_load(&armed) != which || n < from || n >= atomic_load(&behind))
		return false;
	errno = err;
	return true;
}

#define X(ret, name, bad, err, params, args)                                                       \
	ret __real_##name params;                                                                  \
	ret __wrap_##name params;                                                                  \
	ret __wrap_##name params                                                                   \
	{                                                                                          \
		return fails(NTH_##name, err) ? (bad) : __real_##name args;                        \
	}
NTH_PLAIN(X)
#undef X

#define OWN(ret, name, params)                                                                     \
	ret __real_##name params;                                                                  \
	ret __wrap_##name params;                                                                  \
	ret __wrap_##name params

static void *took(void *block)
{
	blocks += block != NULL;
	return block;
}

OWN(void *, malloc, (size_t n))
{
	return fails(NTH_malloc, ENOMEM) ? NULL : took(__real_malloc(n));
}

OWN(void *, calloc, (size_t n, size_t width))
{
	return fails(NTH_calloc, ENOMEM) ? NULL : took(__real_calloc(n, width));
}

OWN(void *, aligned_alloc, (size_t align, size_t n))
{
	return fails(NTH_aligned_alloc, ENOMEM) ? NULL : took(__real_aligned_alloc(align, n));
}

OWN(char *, strdup, (const char *text))
{
	return fails(NTH_strdup, ENOMEM) ? NULL : took(__real_strdup(text));
}

OWN(void *, realloc, (void *block, size_t n))
{
	if (fails(NTH_realloc, ENOMEM))
		return NULL;
	return block ? __real_realloc(block, n) : took(__real_realloc(block, n));
}

OWN(void, free, (void *block))
{
	blocks -= block != NULL;
	__real_free(block);
}

OWN(void *, mmap, (void *at, size_t len, int prot, int flags, int fd, long offset))
{
	void *base = MAP_FAILED;

	if (!fails(NTH_mmap, ENOMEM))
		base = __real_mmap(at, len, prot, flags, fd, offset);
	if (base != MAP_FAILED && !(flags & MAP_FIXED))
		mapped += (int64_t)((len + 4095) & ~(size_t)4095);
	return base;
}

OWN(int, munmap, (void *at, size_t len))
{
	mapped -= (int64_t)((len + 4095) & ~(size_t)4095);
	return __real_munmap(at, len);
}

/* A third argument that the caller omitted is read and passed on all the same. */
#define VARIADIC(name, type, bad, err, first_type)                                                 \
	int __real_##name(first_type a, type b, ...);                                              \
	int __wrap_##name(first_type a, type b, ...);                                              \
	int __wrap_##name(first_type a, type b, ...)                                               \
	{                                                                                          \
		va_list args;                                                                      \
		long c;                                                                            \
                                                                                                   \
		va_start(args, b);                                                                 \
		c = va_arg(args, long);                                                            \
		va_end(args);                                                                      \
		return fails(NTH_##name, err) ? bad : __real_##name(a, b, c);                      \
	}
VARIADIC(open, int, -1, EMFILE, const char *)
VARIADIC(fcntl, int, -1, EPERM, int)
VARIADIC(ioctl, unsigned long, -1, ENODEV, int)

OWN(int, getaddrinfo, (const char *host, const char *port, const void *hints, void *found))
{
	return fails(NTH_getaddrinfo, ENOMEM) ? EAI_MEMORY
					      : __real_getaddrinfo(host, port, hints, found);
}

OWN(int, getifaddrs, (void *found))
{
	return fails(NTH_getifaddrs, ENOMEM) ? -1 : __real_getifaddrs(found);
}

static bool is_out(enum nth which)
{
	return fails(which, ENOMEM) && lend_fail(ENOMEM, "no buffer: injected by the test");
}

OWN(struct lend_buf *, lend_buf_take, (struct lend_ep * ep, uint32_t cap))
{
	return is_out(NTH_lend_buf_take) ? NULL : __real_lend_buf_take(ep, cap);
}

OWN(struct lend_buf *, lend_buf_wrap,
    (struct lend_ep * ep, void *data, uint32_t len, void (*gone)(void *), void *arg))
{
	return is_out(NTH_lend_buf_wrap) ? NULL : __real_lend_buf_wrap(ep, data, len, gone, arg);
}

OWN(struct lend_buf *, lend_bufs_take_slow, (struct lend_pool_of_bufs * pool, uint32_t class))
{
	return is_out(NTH_lend_bufs_take_slow) ? NULL : __real_lend_bufs_take_slow(pool, class);
}

OWN(uint32_t, lend_bufs_handle, (struct lend_pool_of_bufs * pool))
{
	return is_out(NTH_lend_bufs_handle) ? 0 : __real_lend_bufs_handle(pool);
}
