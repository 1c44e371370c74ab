#include "io/shm/multihost_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "sys/clock.h"
#include "sys/mapfile.h"
#include "sys/rand.h"
#include "sys/last_error.h"
#include "util/bits.h"

#define MAGIC       UINT64_C(0x4c50)     /* "LP" */
#define LOOK_MAX_NS UINT64_C(1000000000) /* a longer gap in observation does not count */

/* Returns the length in bytes. 0: unknown. A DAX device is a character device: stat() does not
 * give its size. */
static uint64_t length_of(int fd)
{
	unsigned long long len = 0;
	struct stat st;
	char path[64];
	FILE *f;

	if (fstat(fd, &st) != 0)
		return 0;
	if (!S_ISCHR(st.st_mode))
		return (uint64_t)st.st_size;
	(void)snprintf(path, sizeof(path), "/sys/dev/char/%u:%u/size", major(st.st_rdev),
		       minor(st.st_rdev));
	f = fopen(path, "re");
	if (f == NULL)
		return 0;
	if (fscanf(f, "%llu", &len) != 1)
		len = 0;
	(void)fclose(f);
	return len;
}

/* Returns a number for this boot of the kernel and this pid namespace. Within it, a pid shows
 * whether its process is alive. */
static uint64_t host_number(void)
{
	char id[64] = {0};
	uint64_t sum = 14695981039346656037u;
	struct stat st;
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, id, sizeof(id));

	if (fd >= 0)
		(void)close(fd);
	/* A random value: then only a missing heartbeat shows a death. */
	if (n <= 0 || stat("/proc/self/ns/pid", &st) != 0)
		lend_random(&sum, sizeof(sum));
	else
		sum ^= st.st_ino;
	for (ssize_t i = 0; i < n; i++)
		sum = (sum ^ (unsigned char)id[i]) * 1099511628211u;
	return sum;
}

/* Returns the start time of a process. 0: there is none. */
static uint64_t process_start(int64_t pid)
{
	unsigned long long start = 0;
	char path[48], text[512], *at;
	ssize_t n;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	(void)close(fd);
	text[n > 0 ? n : 0] = '\0';
	at = strrchr(text, ')'); /* its name may hold anything */
	if (at == NULL || strncmp(at, ") Z", 3) == 0 || strncmp(at, ") X", 3) == 0 ||
	    sscanf(at,
		   ") %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
		   "%*s %llu",
		   &start) != 1)
		return 0;
	return start;
}

/* Makes a pod of zero memory, and checks an existing one. */
static int check_memory(struct lend_multihost *pod, const char *path)
{
	uint64_t own =
	    MAGIC << 48 | (uint64_t)LEND_MULTIHOST_VERSION << 32 | pod->len / LEND_MULTIHOST_UNIT;
	uint64_t head = 0;
	size_t len;

	if (atomic_compare_exchange_strong(&pod->at->head, &head, own))
		head = own;
	if (head >> 48 != MAGIC)
		return lend_fail(
		    EPROTO, "%s: holds other data; to use it, write zeros over its first 256 KiB",
		    path);
	if ((head >> 32 & 0xffff) != LEND_MULTIHOST_VERSION)
		return lend_fail(EPROTO,
				 "%s: made by version %u, this is %d; install one release on all",
				 path, (unsigned)(head >> 32 & 0xffff), LEND_MULTIHOST_VERSION);
	len = (head & UINT32_MAX) * LEND_MULTIHOST_UNIT;
	if (len > pod->len || len < LEND_MULTIHOST_PAIRS + LEND_SHM_PAIR_LEN)
		return lend_fail(EPROTO,
				 "%s: made with %zu bytes, here it has %zu; give all hosts the "
				 "same memory",
				 path, len, pod->len);
	pod->links = (uint32_t)lend_min_u64((len - LEND_MULTIHOST_PAIRS) / LEND_SHM_PAIR_LEN,
					    LEND_MULTIHOST_LINKS);
	return 0;
}

/* Allocates pages of a plain file, so that touching [offset, offset + len) raises no SIGBUS. */
static int allocate_pages(const struct lend_multihost *pod, uint64_t offset, uint64_t len)
{
	if (!lend_mapfile_is_regular(pod->fd))
		return 0;
	return lend_mapfile_fill(pod->fd, pod->path, offset, len, true);
}

int lend_multihost_allocate(const struct lend_multihost *pod, uint32_t link)
{
	return allocate_pages(pod, LEND_MULTIHOST_PAIRS + (uint64_t)link * LEND_SHM_PAIR_LEN,
			      LEND_SHM_PAIR_LEN);
}

static int map_pod(struct lend_multihost *pod)
{
	void *at;

	pod->len = length_of(pod->fd) / LEND_MULTIHOST_UNIT * LEND_MULTIHOST_UNIT;
	if (pod->len < LEND_MULTIHOST_PAIRS + LEND_SHM_PAIR_LEN)
		return lend_fail(EINVAL, "%s: too small or no memory; a link needs 5 MiB",
				 pod->path);
	at = mmap(NULL, pod->len, PROT_READ | PROT_WRITE, MAP_SHARED, pod->fd, 0);
	if (at == MAP_FAILED)
		return lend_fail(errno,
				 "%s: cannot be mapped: %s; name a DAX device, a PCI BAR or "
				 "a file",
				 pod->path, strerror(errno));
	(void)madvise(at, pod->len, MADV_DONTFORK);
	pod->at = at;
	return 0;
}

int lend_multihost_map(struct lend_multihost *pod, const char *path)
{
	int err;

	*pod = (struct lend_multihost){
	    .path = path, .pid = getpid(), .born = process_start(getpid()), .host = host_number()};
	pod->fd = lend_mapfile_open(path);
	if (pod->fd < 0)
		return pod->fd;
	err = map_pod(pod);
	if (err == 0)
		err = allocate_pages(pod, 0, LEND_MULTIHOST_PAIRS);
	if (err == 0)
		err = check_memory(pod, path);
	if (err != 0)
		lend_multihost_unmap(pod);
	return err;
}

void lend_multihost_unmap(struct lend_multihost *pod)
{
	if (pod->at != NULL)
		(void)munmap(pod->at, pod->len);
	(void)close(pod->fd);
}

/* Copies an end that its owner has marked as ready. False: it is not ready, or it changed
 * meanwhile. */
static bool read_end(const struct lend_multihost *pod, uint32_t i, struct lend_multihost_end *copy,
		     uint64_t *owner)
{
	const struct lend_multihost_end *end = &pod->at->end[i];
	uint64_t claims;

	*owner = atomic_load_explicit(&end->owner, memory_order_acquire);
	claims = atomic_load_explicit(&end->claims, memory_order_acquire);
	if (*owner == 0 || claims != *owner)
		return false;
	copy->host = end->host;
	copy->born = end->born;
	copy->pid = end->pid;
	memcpy(copy->name, end->name, sizeof(copy->name));
	copy->name[sizeof(copy->name) - 1] = '\0';
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&end->owner, memory_order_relaxed) == *owner;
}

/* Extends all observations by the time in which this process was stopped: a heartbeat that it
 * could not observe then proves no death. */
static void note_gap(struct lend_multihost *pod, lend_ns now)
{
	lend_ns gap = now - pod->looked;

	if (pod->looked != 0 && gap > LOOK_MAX_NS) {
		for (uint32_t i = 0; i < LEND_MULTIHOST_ENDS; i++) {
			pod->seen[i].since += gap;
			pod->seen[i].lives = false;
		}
	}
	pod->looked = now;
}

enum lend_multihost_state lend_multihost_owner_state(struct lend_multihost *pod, uint32_t i,
						     uint64_t owner)
{
	struct lend_multihost_seen *seen = &pod->seen[i];
	uint64_t beat = atomic_load_explicit(&pod->at->end[i].beat, memory_order_relaxed), is;
	struct lend_multihost_end end;
	lend_ns now = lend_clock_now();

	if (owner == pod->number)
		return LEND_MULTIHOST_LIVES;
	note_gap(pod, now);
	if (seen->owner != owner || seen->beat != beat) {
		bool beats = seen->owner == owner;

		*seen = (struct lend_multihost_seen){
		    .owner = owner, .beat = beat, .since = now, .lives = beats};
	}
	if (read_end(pod, i, &end, &is) && is == owner && end.host == pod->host && pod->born != 0)
		return process_start(end.pid) == end.born ? LEND_MULTIHOST_LIVES
							  : LEND_MULTIHOST_DEAD;
	if (now - seen->since >= LEND_MULTIHOST_STALE_NS)
		return LEND_MULTIHOST_DEAD;
	return seen->lives && now - seen->since < LOOK_MAX_NS ? LEND_MULTIHOST_LIVES
							      : LEND_MULTIHOST_UNSURE;
}

void lend_multihost_evict(struct lend_multihost *pod, uint32_t i, uint64_t owner)
{
	(void)atomic_compare_exchange_strong(&pod->at->end[i].owner, &owner, 0);
}

uint32_t lend_multihost_find(const struct lend_multihost *pod, const char *name, uint64_t *owner)
{
	struct lend_multihost_end end;

	for (uint32_t i = 0; i < LEND_MULTIHOST_ENDS; i++) {
		if (read_end(pod, i, &end, owner) && strcmp(end.name, name) == 0 &&
		    atomic_load(&pod->at->end[i].holds) == *owner)
			return i;
	}
	return LEND_MULTIHOST_NONE;
}

static void sleep_random(lend_ns most)
{
	struct timespec t = {.tv_nsec = (long)(lend_clock_cycles() % most)};

	(void)nanosleep(&t, NULL);
}

/* Takes a free end, or one of a dead owner. */
static bool take_end(struct lend_multihost *pod, bool *unsure)
{
	*unsure = false;
	for (uint32_t i = 0; i < LEND_MULTIHOST_ENDS; i++) {
		_Atomic uint64_t *owner = &pod->at->end[i].owner;
		uint64_t had = atomic_load(owner), none = 0;

		if (had != 0) {
			enum lend_multihost_state state = lend_multihost_owner_state(pod, i, had);

			*unsure |= state == LEND_MULTIHOST_UNSURE;
			if (state != LEND_MULTIHOST_DEAD)
				continue;
			lend_multihost_evict(pod, i, had);
		}
		if (atomic_compare_exchange_strong(owner, &none, pod->number)) {
			pod->me = i;
			return true;
		}
	}
	return false;
}

/* Writes our end's fields for others. Leaves the links of its previous owner first. No other
 * endpoint does that, so a late one cannot leave our own links. */
static void write_end(struct lend_multihost *pod, const char *name)
{
	struct lend_multihost_end *end = &pod->at->end[pod->me];

	lend_multihost_link_leave_all(pod, pod->me);
	end->host = pod->host;
	end->born = pod->born;
	end->pid = pod->pid;
	memset(end->name, 0, sizeof(end->name));
	memcpy(end->name, name, strlen(name));
	memset(&end->bell, 0, sizeof(end->bell));
	atomic_store(&end->claims, pod->number);
}

/* Finds another end that holds or requests our name. LEND_MULTIHOST_NONE: there is none. */
static uint32_t find_rival(const struct lend_multihost *pod, const char *name, uint64_t *owner)
{
	struct lend_multihost_end end;

	for (uint32_t i = 0; i < LEND_MULTIHOST_ENDS; i++) {
		if (i != pod->me && read_end(pod, i, &end, owner) && strcmp(end.name, name) == 0)
			return i;
	}
	return LEND_MULTIHOST_NONE;
}

/* Claims the name. Each endpoint publishes its request first and checks for others second, so of
 * two at least one sees the other. On another request, it withdraws its own and retries after a
 * random time. On another holder, it gives up. 0, -EADDRINUSE, or -EAGAIN: try again. */
static int claim_name(struct lend_multihost *pod, const char *name)
{
	struct lend_multihost_end *end = &pod->at->end[pod->me];
	uint64_t owner;
	uint32_t other = find_rival(pod, name, &owner);
	enum lend_multihost_state state;

	if (other == LEND_MULTIHOST_NONE) {
		atomic_store(&end->holds, pod->number);
		return 0;
	}
	atomic_store(&end->claims, 0);
	state = lend_multihost_owner_state(pod, other, owner);
	if (state == LEND_MULTIHOST_DEAD)
		lend_multihost_evict(pod, other, owner);
	else if (state == LEND_MULTIHOST_LIVES && atomic_load(&pod->at->end[other].holds) == owner)
		return -EADDRINUSE;
	return -EAGAIN;
}

int lend_multihost_join(struct lend_multihost *pod, const char *name, lend_ns patience)
{
	lend_ns began = lend_clock_now();
	bool unsure;
	int err;

	do
		lend_random(&pod->number, sizeof(pod->number));
	while (pod->number == 0);
	while (!take_end(pod, &unsure)) {
		if (!unsure || lend_clock_now() - began >= patience) {
			pod->number = 0;
			return lend_fail(ENOSPC, "%d endpoints share that memory already; end some",
					 LEND_MULTIHOST_ENDS);
		}
		sleep_random(5000000);
	}
	(void)lend_multihost_heartbeat(pod);
	write_end(pod, name);
	while (name[0] != '\0' && (err = claim_name(pod, name)) != 0) {
		if (err == -EADDRINUSE || lend_clock_now() - began >= patience) {
			lend_multihost_leave(pod);
			return lend_fail(EADDRINUSE,
					 "shm:%s@...: name is in use; choose another or stop the "
					 "other endpoint",
					 name);
		}
		sleep_random(2000000);
		(void)lend_multihost_heartbeat(pod);
		atomic_store(&pod->at->end[pod->me].claims, pod->number);
	}
	return 0;
}

void lend_multihost_leave(struct lend_multihost *pod)
{
	if (lend_multihost_heartbeat(pod)) {
		lend_multihost_link_leave_all(pod, pod->me);
		lend_multihost_evict(pod, pod->me, pod->number);
	}
	pod->number = 0;
}

bool lend_multihost_heartbeat(struct lend_multihost *pod)
{
	struct lend_multihost_end *end = &pod->at->end[pod->me];

	if (pod->number == 0 ||
	    atomic_load_explicit(&end->owner, memory_order_relaxed) != pod->number)
		return false;
	atomic_store_explicit(&end->beat, ++pod->beat, memory_order_relaxed);
	return true;
}
