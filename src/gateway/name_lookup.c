/* name_lookup - finds the addresses of a host in a thread. See name_lookup.h. */
#include "gateway/name_lookup.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "util/check.h"

struct lookup {
	int fd;
	atomic_int owners; /* the thread, and the endpoint */
	atomic_bool over;  /* found and error are set */
	int error;
	struct addrinfo *found;
	char host[H2_HOST_MAX], port[H2_PORT_MAX];
};

static void release_owner(struct lookup *l)
{
	if (atomic_fetch_sub_explicit(&l->owners, 1, memory_order_acq_rel) > 1)
		return;
	if (l->found)
		freeaddrinfo(l->found);
	close(l->fd);
	free(l);
}

static void *run_lookup(void *arg)
{
	const struct addrinfo hints = {.ai_flags = AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
	struct lookup *l = arg;

	l->error = getaddrinfo(l->host, l->port, &hints, &l->found);
	if (l->error)
		l->found = NULL;
	atomic_store_explicit(&l->over, true, memory_order_release);
	(void)eventfd_write(l->fd, 1);
	release_owner(l);
	return NULL;
}

/* Starts the thread, which gets no signals of the program. Returns 0 or -errno. */
static int start_thread(struct lookup *l)
{
	pthread_t thread;
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&thread, NULL, run_lookup, l);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc == 0)
		(void)pthread_detach(thread);
	return -rc;
}

int lookup_start(const char *text, struct lookup **made)
{
	struct lookup *l = calloc(1, sizeof(*l));
	int rc = l ? h2_address_split(text, l->host, l->port) : -ENOMEM;

	if (rc == 0) {
		l->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		rc = l->fd < 0 ? -errno : 0;
	}
	if (rc == 0) {
		atomic_init(&l->owners, 2);
		rc = start_thread(l);
		if (rc < 0)
			close(l->fd);
	}
	if (rc < 0)
		free(l);
	else
		*made = l;
	return rc;
}

int lookup_fd(const struct lookup *l)
{
	return l->fd;
}

struct addrinfo *lookup_take(struct lookup *l, int *error)
{
	struct addrinfo *found;

	LEND_CHECK(atomic_load_explicit(&l->over, memory_order_acquire));
	found = l->found;
	*error = l->error;
	l->found = NULL;
	release_owner(l);
	return found;
}

void lookup_drop(struct lookup *l)
{
	release_owner(l);
}
