#include "io/capture/file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sys/last_error.h"
#include "util/bits.h"

enum { BUFFER = 1 << 20, PATH_CAP = 1024 };

struct lend_capture_file {
	pthread_mutex_t lock;
	pid_t pid;                /* process that opened it: a fork's child has files of its own */
	char asked[PATH_CAP];     /* path as the caller gave it */
	char path[PATH_CAP + 32]; /* path in use; "": not opened yet */
	uint32_t users;
	uint64_t limit;
	uint32_t section; /* current section, from 1 */
	uint32_t ids;     /* interfaces described in that section */
	int fd;
	bool regular; /* false: a pipe. Bytes that do not fit stay in the buffer; no write blocks */
	bool failed;
	uint64_t written, most; /* bytes of the file; RLIMIT_FSIZE: beyond it, SIGXFSZ */
	uint8_t *buffer;
	size_t used;
	_Atomic lend_ns flushed;
	_Atomic bool waiting; /* the buffer is not empty */
};

/* Files that this process has written. Entries are never removed, so that a later open appends
 * to the file. */
static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;
static struct lend_capture_file *files[LEND_CAPTURE_FILES_MAX];

lend_ns lend_capture_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (lend_ns)now.tv_sec * 1000000000u + (lend_ns)now.tv_nsec;
}

/* Ends the capture. Cuts off a block that was written in part, so that the file stays readable. */
static void end_capture(struct lend_capture_file *f, int err, size_t part)
{
	if (f->regular &&
	    ftruncate(f->fd, (off_t)(f->written + lend_pcapng_whole(f->buffer, part))) < 0)
		err = errno;
	f->failed = true;
	f->used = 0;
	fprintf(
	    stderr,
	    "lend: the capture %s ends here: %s; free space or give it a limit (calls continue)\n",
	    f->path, strerror(err));
}

static ssize_t write_some(struct lend_capture_file *f, size_t at)
{
	uint64_t end = f->written + at;
	uint64_t room = f->regular ? f->most - lend_min_u64(end, f->most) : BUFFER;

	if (room == 0) {
		errno = EFBIG;
		return -1;
	}
	return write(f->fd, f->buffer + at, lend_min_u64(f->used - at, room));
}

static void write_buffer(struct lend_capture_file *f)
{
	size_t at = 0;

	while (at < f->used) {
		ssize_t n = write_some(f, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN && !f->regular)
			break;
		if (n <= 0) {
			end_capture(f, n < 0 ? errno : EIO, at);
			at = 0;
			break;
		}
		at += (size_t)n;
	}
	f->written += at;
	f->used -= at;
	memmove(f->buffer, f->buffer + at, f->used);
	atomic_store_explicit(&f->waiting, f->used > 0, memory_order_relaxed);
}

static bool has_room(struct lend_capture_file *f, size_t len)
{
	if (f->failed)
		return false;
	if (BUFFER - f->used < len)
		write_buffer(f);
	return !f->failed && BUFFER - f->used >= len;
}

static void count_added(struct lend_capture_file *f, size_t len)
{
	f->used += len;
	atomic_store_explicit(&f->waiting, true, memory_order_relaxed);
}

/* Begins a section. Its interfaces are counted from 0; each is described before its first
 * packet. */
static void begin_section(struct lend_capture_file *f)
{
	char program[64];

	(void)snprintf(program, sizeof(program), "lend: %s, process %ld",
		       program_invocation_short_name, (long)f->pid);
	f->section++;
	f->ids = 0;
	count_added(f, lend_pcapng_section(f->buffer + f->used, program));
}

static void write_interface(struct lend_capture_file *f, struct lend_capture_port *port)
{
	port->section = f->section;
	port->id = f->ids++;
	count_added(f,
		    lend_pcapng_interface(f->buffer + f->used, port->name, port->text, port->snap));
}

/* Writes the path with the process id: instead of %p, or in front of the suffix if apart is set. */
static bool spell_path(const struct lend_capture_file *f, bool apart, char *out, size_t cap)
{
	const char *mark = strstr(f->asked, "%p"), *rest = mark ? mark + 2 : NULL;
	const char *slash = strrchr(f->asked, '/');
	int n;

	if (!mark && apart) {
		mark = strrchr(slash ? slash : f->asked, '.');
		rest = mark = mark ? mark : f->asked + strlen(f->asked);
	}
	if (!mark)
		n = snprintf(out, cap, "%s", f->asked);
	else
		n = snprintf(out, cap, "%.*s%s%ld%s", (int)(mark - f->asked), f->asked,
			     apart ? "-" : "", (long)f->pid, rest);
	return n >= 0 && (size_t)n < cap;
}

/* Opens a path and returns its descriptor, or -errno. A regular file is locked, until the
 * process ends at the latest. */
static int open_locked(const char *path, bool *regular)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600), err;
	struct stat st;

	if (fd < 0)
		return -errno;
	*regular = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
	if (!*regular || flock(fd, LOCK_EX | LOCK_NB) == 0)
		return fd;
	err = errno;
	close(fd);
	return -err;
}

static int open_path(struct lend_capture_file *f, bool anew)
{
	int fd = -EWOULDBLOCK;

	for (int apart = 0; apart < 2 && fd == -EWOULDBLOCK; apart++) {
		if (!spell_path(f, apart, f->path, sizeof(f->path)))
			return lend_fail(ENAMETOOLONG,
					 "capture %.80s...: the path is too long; give a "
					 "shorter one",
					 f->asked);
		fd = open_locked(f->path, &f->regular);
	}
	if (fd < 0)
		return lend_fail(-fd, "capture %s: %s; give a path that can be written", f->path,
				 strerror(-fd));
	if (anew && f->regular && ftruncate(fd, 0) < 0)
		anew = false; /* append: the old content stays in front */
	f->written = f->regular ? (uint64_t)lseek(fd, 0, SEEK_END) : 0;
	f->fd = fd;
	return 0;
}

/* Renames the file to PATH.1, which replaces an older one, and begins a new file. */
static void rotate_file(struct lend_capture_file *f)
{
	char old[sizeof(f->path) + 2];
	int fd;

	write_buffer(f);
	if (f->failed)
		return;
	(void)snprintf(old, sizeof(old), "%s.1", f->path);
	fd = rename(f->path, old) < 0 ? -errno : open_locked(f->path, &f->regular);
	if (fd < 0) {
		end_capture(f, -fd, 0);
		return;
	}
	close(f->fd);
	f->fd = fd;
	f->written = 0;
	begin_section(f);
}

static int start_file(struct lend_capture_file *f, uint64_t limit)
{
	bool anew = f->path[0] == 0;
	struct rlimit most;
	int rc;

	f->most = getrlimit(RLIMIT_FSIZE, &most) == 0 ? most.rlim_cur : RLIM_INFINITY;
	f->limit = limit && limit < LEND_CAPTURE_LIMIT_MIN ? LEND_CAPTURE_LIMIT_MIN : limit;
	f->failed = false;
	f->used = 0;
	f->buffer = malloc(BUFFER);
	if (!f->buffer)
		return lend_fail(ENOMEM, "no memory for a capture's buffer");
	rc = open_path(f, anew);
	if (rc < 0) {
		f->path[0] = anew ? 0 : f->path[0];
		free(f->buffer);
		f->buffer = NULL;
		return rc;
	}
	f->flushed = lend_capture_now();
	begin_section(f);
	return 0;
}

/* Returns the file of this path and process, known or new. NULL: too many, or no memory. */
static struct lend_capture_file *find_file(const char *path)
{
	struct lend_capture_file *f;
	unsigned i = 0;

	for (; i < LEND_CAPTURE_FILES_MAX && files[i]; i++)
		if (files[i]->pid == getpid() && strcmp(files[i]->asked, path) == 0)
			return files[i];
	if (i == LEND_CAPTURE_FILES_MAX || !(f = calloc(1, sizeof(*f))))
		return NULL;
	pthread_mutex_init(&f->lock, NULL);
	f->pid = getpid();
	(void)snprintf(f->asked, sizeof(f->asked), "%s", path);
	files[i] = f;
	return f;
}

int lend_capture_file_open(const char *path, uint64_t limit, struct lend_capture_file **file)
{
	int rc = 0;

	if (strlen(path) >= PATH_CAP)
		return lend_fail(ENAMETOOLONG,
				 "capture %.80s...: the path is too long; give a "
				 "shorter one",
				 path);
	pthread_mutex_lock(&files_lock);
	*file = find_file(path);
	if (!*file)
		rc = lend_fail(EMFILE,
			       "capture %s: a process fills %d capture files at most; use one "
			       "for several endpoints",
			       path, LEND_CAPTURE_FILES_MAX);
	else if ((*file)->users == 0)
		rc = start_file(*file, limit);
	if (rc == 0)
		(*file)->users++;
	pthread_mutex_unlock(&files_lock);
	return rc;
}

void lend_capture_file_close(struct lend_capture_file *f)
{
	pthread_mutex_lock(&files_lock);
	lend_capture_file_flush(f);
	if (--f->users == 0) {
		close(f->fd);
		free(f->buffer);
		f->buffer = NULL;
	}
	pthread_mutex_unlock(&files_lock);
}

void lend_capture_file_begin(struct lend_capture_file *f)
{
	pthread_mutex_lock(&f->lock);
}

void lend_capture_file_end(struct lend_capture_file *f)
{
	pthread_mutex_unlock(&f->lock);
}

bool lend_capture_file_put(struct lend_capture_file *f, struct lend_capture_port *port,
			   struct lend_pcapng_packet *packet, const struct lend_pcapng_bytes *part,
			   uint32_t n)
{
	size_t len;

	packet->lost = port->lost;
	len = lend_pcapng_packet_len(packet);
	if (f->limit && f->regular && !f->failed && f->written + f->used + len > f->limit)
		rotate_file(f);
	if (!has_room(f, len + LEND_PCAPNG_HEAD_MAX)) {
		port->lost++;
		return false;
	}
	if (port->section != f->section)
		write_interface(f, port);
	packet->interface = port->id;
	lend_pcapng_packet(f->buffer + f->used, packet, part, n);
	count_added(f, len);
	port->lost = 0;
	if (packet->time - f->flushed >= LEND_CAPTURE_FLUSH_NS) {
		write_buffer(f);
		f->flushed = packet->time;
	}
	return true;
}

void lend_capture_file_flush(struct lend_capture_file *f)
{
	if (!atomic_load_explicit(&f->waiting, memory_order_relaxed))
		return;
	pthread_mutex_lock(&f->lock);
	if (!f->failed)
		write_buffer(f);
	f->flushed = lend_capture_now();
	pthread_mutex_unlock(&f->lock);
}

void lend_capture_file_idle(struct lend_capture_file *f)
{
	if (atomic_load_explicit(&f->waiting, memory_order_relaxed) &&
	    lend_capture_now() - f->flushed >= LEND_CAPTURE_FLUSH_NS)
		lend_capture_file_flush(f);
}
