/* Goal: a node with --quota distinguishes tenants, by user on shm and by secret elsewhere, and
 * refuses at once what exceeds a quota, while other tenants continue. Method: a node for each line
 * of a table; clients are processes of their own (lend put), because a process belongs to one
 * tenant; and a client of this process that fills its quota, is refused, releases, and succeeds
 * again. Covers: mn/tenants.c, mn/store/tenant.c, mn/config.c */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "e2e/mem_node.h"
#include "one_line_test.h"

static struct mem_node node;
static char secret[64], wrong[64];

static void write_secret(char path[64], const char *name, const char *text)
{
	FILE *file;

	snprintf(path, 64, "/tmp/lend-%s-%d", name, (int)getpid());
	file = fopen(path, "we");
	cr_assert(file);
	fputs(text, file);
	fclose(file);
}

/* Runs lend put of this many bytes, by a process with this secret. */
static bool can_put(unsigned bytes, const char *mine)
{
	char command[1024];

	snprintf(command, sizeof(command),
		 "head -c %u /dev/zero >%s.data; LEND_SECRET='%s' '%s/lend' put %s.data --node %s "
		 ">/dev/null 2>%s.err; r=$?; rm -f %s.data %s.err; exit $r",
		 bytes, secret, mine, LEND_BUILD_DIR, secret, node.address, secret, secret, secret);
	return system(command) == 0; /* NOLINT(cert-env33-c): made by this test */
}

static void forget_secrets(void)
{
	unlink(secret);
	unlink(wrong);
}

Test(mem_quota, secrets_on_a_network)
{
	static const struct {
		unsigned bytes;
		const char *mine;
		bool can;
	} table[] = {{60000, "open sesame", true},
		     {70000, "open sesame", false},
		     {8000, "", true},
		     {9000, "", false},
		     {8000, "open barley", true},
		     {9000, "open barley", false},
		     {60000, "open sesame", false} /* the first one's TTL runs */};
	char more[256];

	write_secret(secret, "secret", "open sesame\n");
	write_secret(wrong, "wrong", "nobody's\n");
	snprintf(more, sizeof(more), "--quota secret=%s:64K,secret=%s:1M,net:8K:16", secret, wrong);
	mem_node_start(&node, "udp", "4M", more);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (!strcmp(table[i].mine, "open barley") && table[i].can)
			continue; /* the unnamed tenant may keep nothing more */
		cr_expect_eq(can_put(table[i].bytes, table[i].mine), table[i].can, "%u with \"%s\"",
			     table[i].bytes, table[i].mine);
	}
	mem_node_kill(&node);
	forget_secrets();
}

/* A second endpoint of the process has another secret, so it belongs to another tenant. It gets no
 * access to the quota and the objects of the first endpoint. */
Test(mem_quota, another_tenants_process_is_not_let_in)
{
	static char data[65536], back[4096];
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_op op = {.timeout = 2 * SECOND};
	struct iovec iov = {data, 60000}, small = {back, sizeof(back)};
	struct lend_ep *rich, *poor;
	struct lend_mem *mem, *other;
	struct lend_ref ref;
	char more[256];

	write_secret(secret, "secret", "open sesame\n");
	write_secret(wrong, "wrong", "open barley\n");
	snprintf(more, sizeof(more), "--quota secret=%s:1M,secret=%s:8K", secret, wrong);
	mem_node_start(&node, "udp", "4M", more);
	config.secret = "open sesame";
	cr_assert_eq(lend_open(&config, &rich), 0);
	cr_assert_eq(lend_mem_open(rich, node.address, &mem), 0);
	ref = mem_put(mem, data, 60000, NULL);
	config.secret = "open barley";
	cr_assert_eq(lend_open(&config, &poor), 0);
	cr_assert_eq(lend_mem_open(poor, node.address, &other), 0);
	cr_assert_neq(mem_end(other, &op, lend_put(other, &iov, 1, NULL, &op)), LEND_OK,
		      "60000 bytes on the account of another");
	op = (struct lend_op){.timeout = 2 * SECOND};
	(void)mem_end(other, &op, lend_release(other, &ref, 1, &op));
	mem_client_close(poor, other);
	op = (struct lend_op){.timeout = 5 * SECOND};
	cr_assert_eq(mem_end(mem, &op, lend_get(mem, &ref, 0, &small, 1, &op)), LEND_OK,
		     "it was released, or hung up, by another");
	mem_client_close(rich, mem);
	mem_node_kill(&node);
	forget_secrets();
}

Test(mem_quota, users_on_shm)
{
	static char data[256 << 10];
	struct lend_ref ref, second;
	struct lend_op op = {.timeout = 5000000000};
	struct iovec iov = {data, 8192};
	lend_ns before;

	mem_node_start(&node, "shm", "4M", "--quota each:256K:100");
	ref = mem_put(node.mem, data, sizeof(data), NULL);
	before = lend_now(node.ep);
	cr_assert_eq(mem_end(node.mem, &op, lend_put(node.mem, &iov, 1, NULL, &op)),
		     LEND_RESOURCE_EXHAUSTED);
	cr_assert_lt(lend_now(node.ep) - before, 1000000000, "refused at once, not in the end");
	cr_assert_eq(mem_release(node.mem, &ref), LEND_OK);
	second = mem_put(node.mem, data, sizeof(data), NULL);
	cr_assert_eq(mem_release(node.mem, &second), LEND_OK);
	mem_node_stop(&node);
}

/* A quota is the node's: its workers have parts of it. */
Test(mem_quota, workers_share_one)
{
	static char data[16384];
	struct iovec iov = {data, sizeof(data)};
	struct lend_mem_stat stat;
	struct lend_op op;
	int n = 0;

	mem_node_start(&node, "shm", "8M", "--workers 2 --quota each:256K");
	do
		op = (struct lend_op){.timeout = 5 * SECOND};
	while (mem_end(node.mem, &op, lend_put(node.mem, &iov, 1, NULL, &op)) == LEND_OK &&
	       n++ < 100);
	cr_assert_eq(op.status, LEND_RESOURCE_EXHAUSTED);
	cr_assert_eq(n, 16, "%d of 16 KiB fit", n);
	mem_stat(node.mem, &stat);
	cr_assert_eq(stat.pages_used, (256 << 10) / 4096);
	mem_node_kill(&node);
}

/* Sessions that never send HELLO: the node keeps room for others. */
static void silent_sessions(const char *carrier, const char *quota)
{
	enum { ALLOWED = 8, TRIED = 3 * ALLOWED };
	struct lend_ep *silent;
	lend_session session[TRIED];
	struct lend_mem_stat stat;
	int alive = 0;

	mem_node_start(&node, carrier, "4M", quota);
	mem_stat(node.mem, &stat);
	cr_assert_eq(lend_open(NULL, &silent), 0);
	for (int i = 0; i < TRIED; i++) {
		struct lend_call call = {.method = 1, .timeout = 5000000000};

		cr_assert_eq(lend_connect(silent, node.address, &session[i]), 0, "%s", lend_why());
		cr_assert_eq(lend_call_sync(silent, session[i], &call), 0);
		alive += call.status == LEND_UNIMPLEMENTED;
		cr_assert(call.status == LEND_UNIMPLEMENTED || call.status == LEND_UNAVAILABLE,
			  "%d", call.status);
		lend_buf_give(silent, call.reply);
	}
	cr_assert(alive > 0 && alive < ALLOWED, "%d", alive);
	for (int i = 0; i < alive; i++)
		lend_disconnect(silent, session[i]);
	for (int i = 0; i < 2000; i++) { /* the objects' room is free again */
		struct lend_call call = {.method = 1, .timeout = 5000000000};

		cr_assert_eq(lend_connect(silent, node.address, &session[0]), 0);
		cr_assert_eq(lend_call_sync(silent, session[0], &call), 0);
		lend_buf_give(silent, call.reply);
		lend_disconnect(silent, session[0]);
		if (call.status == LEND_UNIMPLEMENTED)
			break;
		cr_assert_lt(i, 1999);
	}
	lend_close(silent);
	mem_node_kill(&node);
}

TestRuns(mem_quota, idle_sessions_shm, silent_sessions("shm", "--quota each:1M:100:2"));
TestRuns(mem_quota, idle_sessions_udp, silent_sessions("udp", "--quota net:1M:100:2"));

Test(mem_quota, no_further_client__the_options_are_named)
{
	static const char *const more[] = {"--clients 1", "--quota each:1G:1000:1"};

	for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
		struct lend_mem *mem;
		struct lend_ref ref;
		struct lend_ep *ep;

		mem_node_start(&node, "shm", "16M", more[i]);
		ref = mem_put(node.mem, "abc", 4, NULL);
		mem_client_open(&node, &ep, &mem);
		cr_assert_eq(lend_mem_add(mem, node.address), -ENOSPC, "%s", more[i]);
		cr_assert(strstr(lend_why(), "--clients") && strstr(lend_why(), "--quota"), "%s",
			  lend_why());
		mem_client_close(ep, mem);
		cr_assert_eq(mem_release(node.mem, &ref), LEND_OK);
		mem_node_stop(&node);
	}
}

Test(mem_quota, one_that_makes_no_sense)
{
	static const char *const bad[] = {"each",         "each:",    ":1G",
					  "uid=:1G",      "uid=x:1G", "each:1G:x",
					  "each:1:2:3:4", "all:1G",   "secret=/nowhere:1G",
					  "each:-1G"};
	char command[256];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(command, sizeof(command),
			 "timeout 5 '%s/lend-mn' --listen udp:127.0.0.1:0 --quota %s 2>&1 | "
			 "grep -q -e '--quota.*%.5s'",
			 LEND_BUILD_DIR, bad[i], bad[i]);
		if (!strcmp(bad[i], "each:"))
			continue;                               /* no limit */
		cr_expect_eq(system(command), 0, "%s", bad[i]); /* NOLINT(cert-env33-c) */
	}
}
