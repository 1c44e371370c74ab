#include "io/raw_pair.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/last_error.h"

struct raw_fake *fake;

void raw_set_up(void)
{
	void *module;

	setenv("LEND_MODULE_DIR", LEND_BUILD_DIR "/test/raw", 1);
	module = dlopen(LEND_BUILD_DIR "/test/raw/lend_io_raw.so", RTLD_NOW | RTLD_LOCAL);
	cr_assert(module, "%s", dlerror());
	fake = dlsym(module, "raw_fake");
	cr_assert(fake);
}

struct lend_io *raw_open(const char *listen)
{
	struct lend_io *io = NULL;
	int rc = lend_io_open(&(struct lend_io_config){.listen = listen}, &io);

	cr_assert_eq(rc, 0, "%s: %s", listen, lend_why_text());
	return io;
}

void raw_take(struct lend_io *io)
{
	(void)conform_take(io, NULL, NULL);
}

struct raw_pair raw_exchange(const char *at, const char *from, const char *keys)
{
	struct raw_pair p = {.b = raw_open(at)};
	char own[104], address[160];

	cr_assert_eq(p.b->ops->name(p.b, own, sizeof(own)), 0);
	p.a = raw_open(from);
	snprintf(address, sizeof(address), "raw:mlx5_1%.80s%s", strchr(own, '@'), keys);
	p.peer = conform_resolve(p.a, address, p.b);
	return p;
}

struct raw_pair raw_meet4(void)
{
	return raw_exchange("raw:mlx5_0@10.77.0.1:0", "raw:mlx5_1@10.77.0.2:0", "");
}

void raw_part(struct raw_pair *p)
{
	p->a->ops->close(p->a);
	p->b->ops->close(p->b);
	cr_assert_eq(fake->opens, 0, "devices are given back");
	cr_assert_eq(fake->run_over, 0);
	cr_assert_eq(fake->misread, 0);
}

void raw_count(void *arg, const struct lend_in *in, uint32_t id, uint32_t seq)
{
	struct raw_tally *t = arg;

	(void)id;
	t->gone += in->gone;
	t->n += !in->gone;
	t->seq = seq;
}

uint32_t raw_drain(struct lend_io *io)
{
	struct raw_tally t = {0};

	while (conform_take(io, raw_count, &t) > 0)
		continue;
	return t.n;
}

void raw_expect_alive(struct raw_pair *p)
{
	(void)raw_drain(p->b);
	for (uint32_t i = 0; i < 10; i++)
		cr_assert_eq(conform_send(p->a, p->peer, 1, i, 100 + i * 100), LEND_SENT);
	cr_assert_eq(raw_drain(p->b), 10);
}
