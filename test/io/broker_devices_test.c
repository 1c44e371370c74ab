/* Goal: a broker serves devices that send from registered memory as it serves others: a process
 * behind it reaches ends that have a device of their own, and is reached by them.
 * Method: the conformance suite between a broker's client and the other device, over the emulated
 * mlx5 device, and over soft-RoCE where it is.
 * Covers: src/broker/broker_client.c, src/broker/broker_forward.c, src/io/raw/send.c,
 * src/io/verbs/send.c, src/io/verbs/cm.c */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/broker/thread.h"
#include "io/conform.h"

static const char *name; /* of this process's broker */

static const char *absent_raw(void)
{
	setenv("LEND_MODULE_DIR", LEND_BUILD_DIR "/test/raw", 1);
	return NULL;
}

/* Two devices are needed: one is the broker's. */
static const char *absent_verbs(void)
{
	setenv("LEND_MODULE_DIR", LEND_BUILD_DIR, 1);
	return access("/sys/class/infiniband/rxe1", F_OK) == 0 ? NULL : "no RDMA device rxe1";
}

static void write_broker(const char *device, char *text, size_t cap)
{
	name = name ? name : broker_thread_start(device);
	(void)snprintf(text, cap, "broker:%s", name);
}

/* Writes an address of the first device as the second one names it, and the other way round. */
static void cross_over(const char *address, const char *near, const char *far, char *text,
		       size_t cap)
{
	const char *at = strchr(address, '@');

	if (strncmp(address, "broker:", 7) == 0)
		(void)snprintf(text, cap, "%s%.60s", far, at);
	else
		(void)snprintf(text, cap, "broker:%s/%s%.60s", name, near, at);
}

static void near_raw(char *text, size_t cap)
{
	write_broker("raw:mlx5_0@10.77.0.1:0", text, cap);
}

static void far_raw(char *text, size_t cap)
{
	(void)snprintf(text, cap, "raw:mlx5_1@10.77.0.2:0");
}

static void across_raw(const char *address, char *text, size_t cap)
{
	cross_over(address, "raw:mlx5_0", "raw:mlx5_1", text, cap);
	if (text[0] == 'r')
		(void)strncat(text, "?from=10.77.0.2", cap - strlen(text) - 1);
}

static void near_verbs(char *text, size_t cap)
{
	write_broker("verbs:rxe0@10.77.0.1:0", text, cap);
}

static void far_verbs(char *text, size_t cap)
{
	(void)snprintf(text, cap, "verbs:rxe1@10.77.0.2:0");
}

static void across_verbs(const char *address, char *text, size_t cap)
{
	cross_over(address, "verbs:rxe0", "verbs:rxe1", text, cap);
}

static const struct conform_row raw = {.name = "broker over raw",
				       .absent = absent_raw,
				       .address = near_raw,
				       .far = far_raw,
				       .across = across_raw,
				       .rebinds = true,
				       .threads = true,
				       .clients = 20,
				       .one_way = true};
static const struct conform_row verbs = {.name = "broker over verbs",
					 .absent = absent_verbs,
					 .address = near_verbs,
					 .far = far_verbs,
					 .across = across_verbs,
					 .rebinds = true,
					 .threads = true,
					 .clients = 20,
					 .one_way = true};

CONFORM_SUITE(broker_raw, &raw)
CONFORM_SUITE(broker_verbs, &verbs)
