/* Goal: a reader with keys of several callers connects to each by the key that its reference names.
 * Method: two processes over UDP: the caller knows one key, the reader has it behind another one;
 * the reader reads an argument in a session of its own with the caller.
 * Covers: cn/lent/caller.c, cn/lent/lender.c, src/rpc/session.c, src/rpc/keys.c */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lend/mem.h"
#include "lend/stats.h"
#include "sys/ref_counts.h"

enum { CHECK = 5, LEN = 1 << 20 };

static char one[96], both[96];
static int served, up; /* up: sessions while the argument was served */

/* Makes a file with one key, and copies its line "psk ID KEY" to text. */
static void make_key(const char *path, char text[512])
{
	char made[128];
	FILE *file;

	(void)unlink(path);
	cr_assert_eq(lend_keygen(path, made, sizeof(made)), 0, "%s", lend_why());
	file = fopen(path, "r");
	cr_assert_not_null(fgets(text, 512, file));
	fclose(file);
}

static void make_keys(void)
{
	char text[512], other[512];
	FILE *file;

	snprintf(one, sizeof(one), "/tmp/lend.lent_keys.%d.one", (int)getpid());
	snprintf(both, sizeof(both), "/tmp/lend.lent_keys.%d.both", (int)getpid());
	make_key(both, other);
	do { /* references name a key by the first byte of its id; 0: none */
		make_key(one, text);
	} while (!strncmp(text + 4, other + 4, 2) || !strncmp(text + 4, "00", 2));
	file = fopen(both, "a");
	fputs(text, file);
	fclose(file);
}

static void remove_keys(void)
{
	unlink(one);
	unlink(both);
}

static void open_end(const char *keys, struct lend_ep **ep, struct lend_mem **mem)
{
	struct lend_config config = LEND_CONFIG_INIT;

	setenv("LEND_KEYS", keys, 1);
	setenv("LEND_LEVEL", "encrypt", 1);
	unsetenv("LEND_SECRET");
	config.listen = "udp:127.0.0.1:0";
	if (lend_open(&config, ep) < 0 || lend_mem_open(*ep, NULL, mem) < 0) {
		fprintf(stderr, "%s\n", lend_why());
		abort();
	}
}

/* Calls the reader with an argument of its own memory. Returns the exit code. */
static int run_caller(int from)
{
	struct lend_call call = {.method = CHECK, .timeout = UINT64_C(20000000000)};
	struct iovec arg = {malloc(LEN), LEN};
	char address[104] = "";
	struct lend_mem *mem;
	struct lend_ep *ep;
	lend_session session;

	if (read(from, address, sizeof(address)) <= 0)
		return 2;
	memset(arg.iov_base, 7, LEN);
	open_end(one, &ep, &mem);
	if (lend_connect(ep, address, &session) < 0 ||
	    lend_call_sync_args(mem, session, &call, &arg, 1) < 0 || call.status != LEND_OK) {
		fprintf(stderr, "status %d: %s\n", call.status, lend_why());
		return 3;
	}
	if (lend_ref_counts.relayed || lend_ref_counts.by_value)
		return 4;
	lend_buf_give(ep, call.reply);
	lend_mem_close(mem);
	lend_close(ep);
	free(arg.iov_base);
	return 0;
}

/* Counts the sessions that are up: the caller's, and the reader's to it. */
static int count_up(struct lend_ep *ep)
{
	struct lend_session_stats stats;
	int n = 0;

	for (unsigned i = 0; (i = lend_stats_session(ep, i, &stats)) != 0;)
		n += stats.up == 1;
	return n;
}

static void check_arg(lend_request request, const struct lend_arg *args, int n, void *ep)
{
	const unsigned char *bytes = n == 1 ? args[0].bytes : NULL;
	bool good = bytes && args[0].len == LEN;

	for (uint32_t i = 0; good && i < LEN; i++)
		good = bytes[i] == 7;
	served++;
	up = count_up(ep);
	lend_reply(ep, request, good ? LEND_OK : LEND_INVALID_ARGUMENT, NULL);
}

Test(lent_keys, reader_with_two_keys__takes_the_caller_s, .init = make_keys, .fini = remove_keys,
     .timeout = 60)
{
	struct lend_mem *mem;
	struct lend_ep *ep;
	char address[104];
	int fds[2], status = -1;
	pid_t child;

	cr_assert_eq(pipe(fds), 0);
	child = fork();
	if (child == 0)
		_exit(run_caller(fds[0]));
	open_end(both, &ep, &mem);
	cr_assert_eq(lend_serve_args(mem, CHECK, check_arg, ep, 0), 0);
	cr_assert_eq(lend_address(ep, address, sizeof(address)), 0);
	cr_assert_gt(write(fds[1], address, sizeof(address)), 0);
	while (waitpid(child, &status, WNOHANG) == 0)
		cr_assert_geq(lend_wait(ep, lend_now(ep) + 10000000), 0);
	cr_expect_eq(status, 0, "the caller ended with %d", WEXITSTATUS(status));
	cr_expect_eq(served, 1);
	cr_expect_eq(up, 2, "the argument was read without a session to its caller");
	lend_mem_close(mem);
	lend_close(ep);
	close(fds[0]);
	close(fds[1]);
}
