/* uffd - memory with page faults and first stores that this process handles, by userfaultfd.
 * Layer: sys. No state of its own. */
#include "sys/uffd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sys/last_error.h"

#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC (1 << 15)
#endif

static int create_fd(void)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 && errno == EPERM) /* allowed to every user, for faults in user mode only */
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	return fd < 0 ? -errno : fd;
}

int lend_uffd_open(void)
{
	struct uffdio_api api = {.api = UFFD_API};
	int fd;

	if (sysconf(_SC_PAGESIZE) != LEND_UFFD_PAGE)
		return lend_fail(EOPNOTSUPP, "memory of spaces needs system pages of 4 KiB: use "
					     "lend_space_read() and lend_space_write()");
	fd = create_fd();
	if (fd < 0)
		return lend_fail(-fd,
				 "userfaultfd is refused here (%s): allow it in the container's "
				 "seccomp profile, or use lend_space_read() and lend_space_write()",
				 strerror(-fd));
	if (ioctl(fd, UFFDIO_API, &api) == 0 && (api.features & UFFD_FEATURE_PAGEFAULT_FLAG_WP))
		return fd;
	close(fd);
	return lend_fail(EOPNOTSUPP, "this kernel's userfaultfd has no write protection (Linux 5.7 "
				     "has); use lend_space_read() and lend_space_write()");
}

int lend_uffd_map(int fd, size_t len, void **base)
{
	void *at = mmap(NULL, len, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct uffdio_register reg = {.range = {(uintptr_t)at, len},
				      .mode =
					  UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP};
	int err;

	if (at == MAP_FAILED)
		return lend_fail(errno, "no address space for %zu bytes: raise ulimit -v", len);
	/* Do not give this memory to a child: nothing serves its faults there, it would read zeros.
	 */
	if (madvise(at, len, MADV_DONTFORK) == 0 && ioctl(fd, UFFDIO_REGISTER, &reg) == 0) {
		(void)madvise(at, len, MADV_NOHUGEPAGE); /* EINVAL where there are none */
		*base = at;
		return 0;
	}
	err = errno;
	munmap(at, len);
	return lend_fail(err, "userfaultfd does not take %zu bytes: %s", len, strerror(err));
}

void lend_uffd_unmap(void *base, size_t len)
{
	munmap(base, len);
}

bool lend_uffd_next(int fd, struct lend_uffd_event *event)
{
	struct uffd_msg msg;

	while (read(fd, &msg, sizeof(msg)) == sizeof(msg)) {
		if (msg.event != UFFD_EVENT_PAGEFAULT)
			continue;
		event->page = msg.arg.pagefault.address & ~(uintptr_t)(LEND_UFFD_PAGE - 1);
		event->was_clean = msg.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP;
		event->store =
		    event->was_clean || (msg.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WRITE);
		return true;
	}
	return false;
}

bool lend_uffd_fill(int fd, void *page, const void *bytes, size_t len, bool clean)
{
	for (size_t at = 0; at < len;) {
		struct uffdio_copy copy = {.dst = (uintptr_t)page + at,
					   .src = (uintptr_t)bytes + at,
					   .len = len - at,
					   .mode = clean ? UFFDIO_COPY_MODE_WP : 0};

		if (ioctl(fd, UFFDIO_COPY, &copy) == 0)
			return true;
		if (copy.copy > 0) {
			at += (size_t)copy.copy;
		} else if (errno == EEXIST) {
			lend_uffd_wake(fd, (char *)page + at, LEND_UFFD_PAGE);
			at += LEND_UFFD_PAGE;
		} else if (errno != EAGAIN) {
			return false;
		}
	}
	return true;
}

static bool protect_pages(int fd, void *page, size_t len, uint64_t mode)
{
	struct uffdio_writeprotect wp = {.range = {(uintptr_t)page, len}, .mode = mode};
	int rc;

	do
		rc = ioctl(fd, UFFDIO_WRITEPROTECT, &wp);
	while (rc < 0 && errno == EAGAIN);
	return rc == 0;
}

void lend_uffd_protect(int fd, void *page, size_t len)
{
	(void)protect_pages(fd, page, len, UFFDIO_WRITEPROTECT_MODE_WP);
}

void lend_uffd_unprotect(int fd, void *page, size_t len)
{
	(void)protect_pages(fd, page, len, 0);
}

void lend_uffd_wake(int fd, void *page, size_t len)
{
	struct uffdio_range range = {(uintptr_t)page, len};

	(void)ioctl(fd, UFFDIO_WAKE, &range);
}

int lend_uffd_marks(void)
{
	struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_WP_ASYNC};
	int fd = create_fd();

	if (fd < 0)
		return lend_fail(-fd,
				 "userfaultfd is refused here (%s): allow it in the "
				 "container's seccomp profile",
				 strerror(-fd));
	if (ioctl(fd, UFFDIO_API, &api) == 0)
		return fd;
	close(fd);
	return lend_fail(
	    EOPNOTSUPP,
	    "this kernel's userfaultfd has no asynchronous write protection (Linux 6.7 has)");
}

bool lend_uffd_watch(int fd, void *page, size_t len)
{
	struct uffdio_register reg = {.range = {(uintptr_t)page, len},
				      .mode = UFFDIO_REGISTER_MODE_WP};

	return ioctl(fd, UFFDIO_REGISTER, &reg) == 0;
}

void lend_uffd_unwatch(int fd, void *page, size_t len)
{
	struct uffdio_range range = {(uintptr_t)page, len};

	(void)ioctl(fd, UFFDIO_UNREGISTER, &range);
}

bool lend_uffd_mark(int fd, void *page, size_t len)
{
	return protect_pages(fd, page, len, UFFDIO_WRITEPROTECT_MODE_WP);
}
