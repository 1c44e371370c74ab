/* Goal: the raw carrier keeps the promises of a carrier.
 * Method: the conformance suite between two devices made of memory (raw/fake.c), with ARP and with
 * neighbour discovery, also with small buffers, so that all rings wrap often; over a real device
 * where LEND_RAW names it.
 * Covers: src/io/raw/carrier.c, src/io/raw/rx.c, src/io/raw/send.c, src/io/raw/peer.c */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/conform.h"
#include "io/raw/fake.h"

static const char *absent_card(void)
{
	setenv("LEND_MODULE_DIR", LEND_BUILD_DIR, 1);
	return getenv("LEND_RAW") ? NULL : "no mlx5 device (LEND_RAW=DEV@IP names one)";
}

static void card_address(char *text, size_t cap)
{
	(void)snprintf(text, cap, "raw:%.80s:0", getenv("LEND_RAW"));
}

static const char *why_absent(void)
{
	setenv("LEND_MODULE_DIR", LEND_BUILD_DIR "/test/raw", 1);
	return NULL;
}

static struct raw_fake *fake_module(void)
{
	void *module = dlopen(LEND_BUILD_DIR "/test/raw/lend_io_raw.so", RTLD_NOW | RTLD_LOCAL);

	cr_assert(module, "%s", dlerror());
	return dlsym(module, "raw_fake");
}

/* 64 bytes per stride, 64 strides per buffer: a frame of 1,500 bytes takes 24. */
static const char *absent_small(void)
{
	(void)why_absent();
	fake_module()->stride_log = 6;
	fake_module()->strides_log = 6;
	return NULL;
}

static void near_address4(char *text, size_t cap)
{
	(void)snprintf(text, cap, "raw:mlx5_0@10.77.0.1:0");
}

static void far_address4(char *text, size_t cap)
{
	(void)snprintf(text, cap, "raw:mlx5_1@10.77.0.2:0");
}

/* Writes the device name that the other end uses. Clients add their own address. */
static void across_address4(const char *address, char *text, size_t cap)
{
	const char *at = strchr(address, '@');

	(void)snprintf(text, cap, "raw:mlx5_1%.60s?from=10.77.0.2", at);
	if (strncmp(address, "raw:mlx5_1", 10) == 0)
		(void)snprintf(text, cap, "raw:mlx5_0%.60s?from=10.77.0.1", at);
}

static void near_address6(char *text, size_t cap)
{
	(void)snprintf(text, cap, "raw:mlx5_0@[fd00::1]:0?vlan=77");
}

static void across_address6(const char *address, char *text, size_t cap)
{
	(void)snprintf(text, cap, "raw:mlx5_1%.60s&from=fd00::2", strchr(address, '@'));
}

static const struct conform_row card = {.name = "raw",
					.absent = absent_card,
					.address = card_address,
					.rebinds = true,
					.threads = true,
					.clients = 40,
					.both = true};
static const struct conform_row fake4 = {.name = "raw_fake",
					 .absent = why_absent,
					 .address = near_address4,
					 .far = far_address4,
					 .across = across_address4,
					 .rebinds = true,
					 .threads = true,
					 .clients = 40,
					 .both = true};
static const struct conform_row fake6 = {.name = "raw_fake6",
					 .absent = absent_small,
					 .address = near_address6,
					 .across = across_address6,
					 .rebinds = true,
					 .threads = true,
					 .clients = 12};

CONFORM_SUITE(raw, &card)
CONFORM_SUITE(raw_fake, &fake4)
CONFORM_CASE(raw_fake6, &fake6, order)
CONFORM_CASE(raw_fake6, &fake6, loss)
CONFORM_CASE(raw_fake6, &fake6, mtu)
CONFORM_CASE(raw_fake6, &fake6, content)
CONFORM_CASE(raw_fake6, &fake6, restart)
CONFORM_CASE(raw_fake6, &fake6, clients)
