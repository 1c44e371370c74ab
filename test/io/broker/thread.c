#include "io/broker/thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "sys/last_error.h"

static atomic_bool leaving;
static pthread_t thread;

struct lend_broker *broker_open(const char *device, const char **name)
{
	static _Atomic unsigned count;
	struct lend_broker_config config;
	struct lend_broker *h;
	char text[64];

	(void)snprintf(text, sizeof(text), "broker-%d-%u", (int)getpid(),
		       atomic_fetch_add(&count, 1));
	config = (struct lend_broker_config){.name = strdup(text), .device = strdup(device)};
	cr_assert_eq(lend_broker_open(&config, &h), 0, "%s", lend_why_text());
	*name = config.name;
	return h;
}

static void *run_broker(void *arg)
{
	struct lend_broker *h = arg;

	while (!atomic_load(&leaving))
		if (lend_broker_turn(h) == 0)
			lend_broker_wait(h);
	lend_broker_close(h);
	return NULL;
}

static void stop_broker(void)
{
	atomic_store(&leaving, true);
	(void)pthread_join(thread, NULL);
}

const char *broker_thread_start(const char *device)
{
	const char *name;
	struct lend_broker *h = broker_open(device, &name);

	cr_assert_eq(pthread_create(&thread, NULL, run_broker, h), 0);
	(void)atexit(stop_broker);
	return name;
}
