/* hangups - reads the file of keys again at SIGHUP. Layer: rpc. Threads: one of its own. */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>

#include "lend/rpc.h"

static void fill_hangup(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGHUP);
}

static void *wait_for_hangups(void *program)
{
	sigset_t hangup;
	int number;

	fill_hangup(&hangup);
	while (sigwait(&hangup, &number) == 0)
		if (lend_reload_keys() < 0)
			fprintf(stderr, "%s: keys stay as they are: %s\n", (const char *)program,
				lend_why());
	return NULL;
}

int lend_reload_keys_on_hangup(const char *program)
{
	sigset_t hangup;
	pthread_t thread;
	int rc;

	fill_hangup(&hangup);
	rc = pthread_sigmask(SIG_BLOCK, &hangup, NULL);
	if (rc == 0)
		rc = pthread_create(&thread, NULL, wait_for_hangups, (void *)(uintptr_t)program);
	if (rc == 0)
		pthread_detach(thread);
	return -rc;
}
