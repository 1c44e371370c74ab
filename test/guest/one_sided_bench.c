/* one_sided_bench - gets, puts or lent arguments over verbs, every byte checked.
 *
 *   one_sided_bench get|put NODE PID BYTES COUNT [reads]    NODE: a memory node, PID: its process
 *   one_sided_bench lent HERE THERE BYTES COUNT             addresses to listen at
 *
 * Fails unless the device makes all transfers but the first ones, or, for get and put without
 * `reads`, none. Prints for get and put: user and whole CPU time of the node in us per MiB, reads
 * by this end, runs that this end has shown; for lent: reads by the server. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lend/mem.h"
#include "lend/stats.h"

enum { WARM_MS = 20000, CHECK = 1 };

static struct lend_ep *ep;
static struct lend_mem *mem;

static void fail_with(const char *what)
{
	fprintf(stderr, "one_sided_bench: %s: %s\n", what, lend_why());
	exit(1);
}

static uint64_t read_counter(const char *wanted)
{
	const char *name, *text;
	uint64_t value = 0;

	for (unsigned i = 0; lend_stats_each(ep, i, &name, &text, &value); i++)
		if (!strcmp(name, wanted))
			return value;
	fail_with(wanted);
	return 0;
}

/* Reads the user and the whole CPU time of a process, in us. */
static void read_cpu(const char *pid, double out[2])
{
	char path[64], line[1024];
	unsigned long user = 0, kernel = 0;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	f = fopen(path, "r");
	if (!f || !fgets(line, sizeof(line), f) ||
	    sscanf(strrchr(line, ')'), ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
		   &user, &kernel) != 2)
		fail_with(path);
	(void)fclose(f);
	out[0] = 1e6 * (double)user / (double)sysconf(_SC_CLK_TCK);
	out[1] = out[0] + 1e6 * (double)kernel / (double)sysconf(_SC_CLK_TCK);
}

static void fill_bytes(uint8_t *bytes, size_t len, uint32_t seed)
{
	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(i * 7 + (i >> 8) * 13 + (i >> 16) + seed);
}

static void compare(const uint8_t *bytes, size_t len, uint32_t seed)
{
	for (size_t i = 0; i < len; i++)
		if (bytes[i] != (uint8_t)(i * 7 + (i >> 8) * 13 + (i >> 16) + seed)) {
			fprintf(stderr, "one_sided_bench: byte %zu is wrong\n", i);
			exit(1);
		}
}

static void open_client(const char *nodes, const char *listen)
{
	struct lend_config config = LEND_CONFIG_INIT;

	config.listen = listen;
	if (lend_open(&config, &ep) < 0 || lend_mem_open(ep, nodes, &mem) < 0)
		fail_with("open");
}

static void put_bytes(uint8_t *bytes, size_t len, struct lend_ref *ref)
{
	struct lend_op op = {.timeout = 60000000000u};
	struct iovec data = {bytes, len};

	if (lend_put_sync(mem, &data, 1, NULL, &op) < 0 || op.status != LEND_OK)
		fail_with("put");
	*ref = op.ref;
}

static void get_bytes(uint8_t *bytes, size_t len, const struct lend_ref *ref)
{
	struct lend_op op = {.timeout = 60000000000u};
	struct iovec into = {bytes, len};

	if (lend_get_sync(mem, ref, 0, &into, 1, &op) < 0 || op.status != LEND_OK)
		fail_with("get");
}

static void release_bytes(const struct lend_ref *ref)
{
	struct lend_op op = {.timeout = 60000000000u};

	if (lend_release_sync(mem, ref, 1, &op) < 0 || op.status != LEND_OK)
		fail_with("release");
}

/* One transfer; puts are read back when check is set. */
static void run_transfer(bool puts, uint8_t *bytes, size_t len, const struct lend_ref *ref,
			 uint32_t seed, bool check)
{
	struct lend_ref made;

	if (!puts) {
		memset(bytes, 0, len);
		get_bytes(bytes, len, ref);
		compare(bytes, len, 0);
		return;
	}
	fill_bytes(bytes, len, seed);
	put_bytes(bytes, len, &made);
	if (check) {
		memset(bytes, 0, len);
		get_bytes(bytes, len, &made);
		compare(bytes, len, seed);
	}
	release_bytes(&made);
}

static int run_node(bool puts, char **argv, bool reads)
{
	size_t len = strtoul(argv[3], NULL, 0);
	unsigned count = (unsigned)strtoul(argv[4], NULL, 0);
	uint8_t *bytes = malloc(len);
	const char *name = puts ? "io_one_sided_shows" : "io_one_sided_reads";
	struct lend_ref ref;
	double before[2], after[2];
	uint64_t done;
	lend_ns end;

	open_client(argv[1], NULL);
	fill_bytes(bytes, len, 0);
	put_bytes(bytes, len, &ref);
	end = lend_now(ep) + WARM_MS * UINT64_C(1000000);
	do
		run_transfer(puts, bytes, len, &ref, 1, true);
	while (reads && read_counter(name) == 0 && lend_now(ep) < end);
	done = read_counter(name);
	read_cpu(argv[2], before);
	for (unsigned i = 0; i < count; i++)
		run_transfer(puts, bytes, len, &ref, i, false);
	read_cpu(argv[2], after);
	done = read_counter(name) - done;
	run_transfer(puts, bytes, len, &ref, 3, true);
	printf("%.0f %.0f %llu %llu\n", (after[0] - before[0]) / count / ((double)len / 1048576),
	       (after[1] - before[1]) / count / ((double)len / 1048576),
	       (unsigned long long)read_counter("io_one_sided_reads"),
	       (unsigned long long)read_counter("io_one_sided_shows"));
	lend_mem_close(mem);
	lend_close(ep);
	if ((reads && done < count) || (!reads && done > 0)) {
		fprintf(stderr, "one_sided_bench: %llu of %u were one-sided\n",
			(unsigned long long)done, count);
		return 1;
	}
	return 0;
}

/* Checks an argument that its caller lends. Its first byte is its seed. */
static void check_lent(lend_request request, const struct lend_arg *args, int n, void *reads)
{
	if (n != 1)
		fail_with("arguments");
	compare(args[0].bytes, args[0].len, *(const uint8_t *)args[0].bytes);
	*(uint64_t *)reads = read_counter("io_one_sided_reads");
	lend_reply_copy(ep, request, LEND_OK, reads, sizeof(uint64_t));
}

/* Serves at an address, and writes the real one to fd. */
static int serve_lent(const char *listen, int fd)
{
	static uint64_t reads;
	char address[128] = "";

	open_client("", listen);
	if (lend_serve_args(mem, CHECK, check_lent, &reads, 0) < 0 ||
	    lend_address(ep, address, sizeof(address)) < 0)
		fail_with(listen);
	if (write(fd, address, sizeof(address)) != sizeof(address))
		fail_with("pipe");
	lend_run(ep, LEND_NEVER);
	return 1;
}

/* Lends the bytes of one call. Returns the reads that the server has made since it began. */
static uint64_t lend_bytes(lend_session session, uint8_t *bytes, size_t len, uint8_t seed)
{
	struct lend_call call = {.method = CHECK, .timeout = 60000000000u};
	struct iovec piece = {bytes, len};
	struct lend_argument arg = {.data = &piece, .n = 1, .way = LEND_ARG_CALLER};
	uint64_t reads;

	fill_bytes(bytes, len, seed);
	if (lend_call_sync_argv(mem, session, &call, &arg, 1) < 0 || call.status != LEND_OK ||
	    call.reply_len != sizeof(reads))
		fail_with("lent argument");
	memcpy(&reads, call.reply->data, sizeof(reads));
	lend_buf_give(ep, call.reply);
	return reads;
}

/* Calls a server in a child process; both listen, because the server reads from the caller. */
static int run_lent(char **argv)
{
	size_t len = strtoul(argv[3], NULL, 0), device = strcspn(argv[1], "@");
	unsigned count = (unsigned)strtoul(argv[4], NULL, 0);
	uint8_t *bytes = malloc(len);
	char there[128], address[256];
	lend_session session;
	uint64_t reads;
	pid_t child;
	int fd[2];

	if (!bytes || pipe(fd) < 0 || (child = fork()) < 0)
		fail_with("fork");
	if (child == 0)
		exit(serve_lent(argv[2], fd[1]));
	open_client("", argv[1]);
	if (read(fd[0], there, sizeof(there)) != sizeof(there))
		fail_with("pipe");
	(void)snprintf(address, sizeof(address), "%.*s%s", (int)device, argv[1],
		       there + strcspn(there, "@"));
	if (lend_connect(ep, address, &session) < 0)
		fail_with(address);
	for (lend_ns end = lend_now(ep) + WARM_MS * UINT64_C(1000000); lend_now(ep) < end;)
		if (lend_bytes(session, bytes, len, 1))
			break;
	reads = lend_bytes(session, bytes, len, 2);
	for (unsigned i = 1; i < count; i++)
		lend_bytes(session, bytes, len, (uint8_t)i);
	reads = lend_bytes(session, bytes, len, 3) - reads;
	kill(child, SIGKILL);
	(void)waitpid(child, NULL, 0);
	printf("%llu\n", (unsigned long long)reads);
	if (reads < count) {
		fprintf(stderr, "one_sided_bench: %llu of %u were one-sided\n",
			(unsigned long long)reads, count);
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 6)
		return 2;
	if (strcmp(argv[1], "lent") == 0)
		return run_lent(argv + 1);
	return run_node(strcmp(argv[1], "put") == 0, argv + 1, argc > 6);
}
