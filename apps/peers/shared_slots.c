/* shared_slots - see shared_slots.h. */
#include "apps/peers/shared_slots.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "apps/common/options.h"

enum { NAME_MAX_LEN = 64 };

static void map_slots(struct peer_slots *s, const struct peer_job *job, int fd, uint64_t len)
{
	s->job = job;
	s->len = sizeof(struct peer_shared) + len;
	if (fd >= 0 && ftruncate(fd, (off_t)s->len) == 0)
		s->shared =
		    mmap(NULL, s->len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (fd < 0 || !s->shared || s->shared == MAP_FAILED)
		app_die("no shared memory: %s; is /dev/shm full?", strerror(errno));
	close(fd);
}

void peer_slots_make(struct peer_slots *s, const struct peer_job *job, struct peer_pipe *channel,
		     uint64_t len)
{
	char name[NAME_MAX_LEN];

	snprintf(name, sizeof(name), "/lend-peer-%d", (int)getpid());
	map_slots(s, job, shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600), len);
	peer_send_text(channel, name, strlen(name) + 1);
}

void peer_slots_map(struct peer_slots *s, const struct peer_job *job, struct peer_pipe *channel,
		    uint64_t len)
{
	char name[PEER_ADDRESS_MAX];

	peer_receive_text(channel, name, sizeof(name));
	map_slots(s, job, shm_open(name, O_RDWR, 0), len);
	shm_unlink(name);
}

void peer_slots_unmap(struct peer_slots *s)
{
	munmap(s->shared, s->len);
}

void peer_slots_end_answered(struct peer_slots *s)
{
	for (unsigned i = 0; i < s->job->window; i++) {
		struct peer_shared_slot *slot = &s->shared->slot[i];

		if (atomic_load_explicit(&slot->answered, memory_order_acquire) == s->seen[i])
			continue;
		s->seen[i]++;
		peer_end_at(i, slot->sum, PEER_SUM_LEN);
	}
}
