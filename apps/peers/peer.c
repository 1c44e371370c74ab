/* peer - see peer.h. */
#include "apps/peers/peer.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/common/options.h"
#include "apps/common/cacheline_rtt.h"
#include "apps/common/closed_loop.h"
#include "apps/common/spawn.h"
#include "apps/peers/peer_args.h"
#include "apps/peers/checksum.h"

enum { SEED = 7, WARM_SHARE = 5, WARM_COUNT = 1000, LIMIT_S = 30 };

struct peer_pipe {
	int fd; /* -1: the other side is this process */
	unsigned char box[PEER_ADDRESS_MAX];
	size_t len; /* bytes in box */
};

/* The server's counters; it sends them to the client at its end. */
struct served {
	uint64_t requests, bytes, replied;
	double cpu_seconds;
};

static struct {
	struct peer_pipe channel, other; /* the client's side, and the server's in one thread */
	pid_t pid;                       /* process of the server; 0: this thread */
	void *client, *server;
	struct app_load load;
	struct app_slot slot[PEER_WINDOW_MAX], *order[PEER_WINDOW_MAX];
	unsigned refused[PEER_WINDOW_MAX], refusals; /* slots to retry after the next turn */
	unsigned char *written[PEER_WINDOW_MAX];     /* memory of rewritten requests, made once */
	uint64_t calls;                              /* since the beginning */
	double cpu_seconds; /* CPU time of this process while it measured */
	double line_before, line_after;
} run;
static struct peer_args args;
static struct served served;
static volatile sig_atomic_t stopping;

static void other_ended(void)
{
	app_die("the other side ended: its own line says why");
}

void peer_send_text(struct peer_pipe *channel, const void *bytes, size_t len)
{
	struct peer_pipe *to = channel == &run.other ? &run.channel : &run.other;

	if (channel->fd >= 0) {
		if (send(channel->fd, bytes, len, MSG_NOSIGNAL) != (ssize_t)len)
			other_ended();
		return;
	}
	memcpy(to->box, bytes, len);
	to->len = len;
}

size_t peer_receive_text(struct peer_pipe *channel, void *bytes, size_t cap)
{
	size_t len = channel->len < cap ? channel->len : cap;
	ssize_t got;

	if (channel->fd < 0) {
		memcpy(bytes, channel->box, len);
		return len;
	}
	do
		got = recv(channel->fd, bytes, cap, 0);
	while (got < 0 && errno == EINTR && !stopping);
	if (got <= 0)
		other_ended();
	return (size_t)got;
}

void peer_serve(const struct peer_job *job, const struct iovec *part, unsigned parts, void *reply)
{
	struct peer_sum sum;

	served.requests++;
	served.replied += job->reply;
	for (unsigned i = 0; i < parts; i++)
		served.bytes += part[i].iov_len;
	if (!reply)
		return;
	peer_sum_begin(&sum, job->request, job->ends);
	for (unsigned i = 0; i < parts; i++)
		peer_sum_add(&sum, part[i].iov_base, part[i].iov_len);
	peer_sum_end(&sum, reply);
}

static uint64_t wrong_echo(uint64_t number, const struct iovec *part, unsigned parts)
{
	const unsigned char *want = app_pattern(number, args.job.request);
	uint64_t at = 0, wrong = 0;

	for (unsigned i = 0; i < parts; i++) {
		uint64_t n = part[i].iov_len;

		if (n > args.job.reply - at)
			return args.job.reply;
		if (memcmp(part[i].iov_base, want + at, n))
			wrong += n;
		at += n;
	}
	return wrong + args.job.reply - at;
}

/* Returns the expected sum of a request; computes the sums of all patterns once. */
static const unsigned char *sum_of(uint64_t number)
{
	static unsigned char sums[APP_PATTERN_KINDS][PEER_SUM_LEN];
	static bool made;

	for (unsigned i = 0; i < APP_PATTERN_KINDS && !made; i++) {
		struct peer_sum sum;

		peer_sum_begin(&sum, args.job.request, args.job.ends);
		peer_sum_add(&sum, app_pattern(i, args.job.request), args.job.request);
		peer_sum_end(&sum, sums[i]);
	}
	made = true;
	return sums[number % APP_PATTERN_KINDS];
}

static uint64_t wrong_sum(uint64_t number, const struct iovec *part, unsigned parts)
{
	if (parts == 1 && part->iov_len == PEER_SUM_LEN &&
	    !memcmp(part->iov_base, sum_of(number), PEER_SUM_LEN))
		return 0;
	return args.job.request;
}

void peer_end(unsigned slot, const struct iovec *part, unsigned parts)
{
	struct app_slot *one = &run.slot[slot];
	uint64_t wrong = peer_is_echo(&args.job) ? wrong_echo(one->number, part, parts)
						 : wrong_sum(one->number, part, parts);

	app_slot_end(one, LEND_OK, wrong);
}

void peer_end_at(unsigned slot, const void *bytes, size_t len)
{
	const struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};

	peer_end(slot, &part, 1);
}

__attribute__((weak)) void *peer_client_place(void *client, unsigned slot)
{
	(void)client;
	(void)slot;
	return NULL;
}

/* Writes the bytes of a request into the library's memory, or into the slot's own. */
static const void *rewrite_request(unsigned slot, const unsigned char *bytes)
{
	uint64_t len = args.job.request, part = PEER_SUM_ENDS;
	unsigned char *to = peer_client_place(run.client, slot);

	if (!to && !run.written[slot])
		run.written[slot] = malloc(len);
	if (!to)
		to = run.written[slot];
	if (!to)
		app_die("no memory; give a smaller --request or --window");
	if (!args.job.ends || len <= 2 * part)
		return memcpy(to, bytes, len);
	memcpy(to, bytes, part);
	memcpy(to + len - part, bytes + len - part, part);
	return to;
}

static int start_at(unsigned slot)
{
	const void *bytes = app_pattern(run.slot[slot].number, args.job.request);

	return peer_client_start(run.client, slot,
				 args.job.rewrite ? rewrite_request(slot, bytes) : bytes);
}

static int start_slot(struct app_slot *one)
{
	int rc = start_at(one->index);

	if (rc == -EAGAIN)
		run.refused[run.refusals++] = one->index;
	return rc == -EAGAIN ? 0 : rc;
}

static int run_turn(void *arg)
{
	(void)arg;
	peer_client_turn(run.client);
	if (run.server)
		peer_server_turn(run.server);
	while (run.refusals && start_at(run.refused[run.refusals - 1]) == 0)
		run.refusals--;
	return 0;
}

static void on_stop(int number)
{
	(void)number;
	stopping = 1;
}

/* Pins this thread to the first CPU, or a server's to the second. */
static void pin_side(unsigned side)
{
	if (!args.free && side < app_cpus())
		app_pin(app_cpu(side));
}

/* Returns the CPU time of all threads of this process. */
static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Opens the server of this process. */
static void open_own_server(struct peer_pipe *channel)
{
	struct sigaction action = {.sa_handler = on_stop};

	if (peer_this.pin_first)
		pin_side(1);
	run.server = peer_server_open(&args.job, channel);
	sigaction(SIGTERM, &action, NULL); /* in the place of a library's own */
	pin_side(1);
}

static void serve_until_stopped(void)
{
	while (!stopping)
		peer_server_turn(run.server);
	peer_server_close(run.server);
	served.cpu_seconds += cpu_seconds();
}

static _Noreturn void be_server(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	open_own_server(&run.channel);
	serve_until_stopped();
	peer_send_text(&run.channel, &served, sizeof(served));
	exit(APP_EXIT_OK);
}

/* Serves clients that other programs are. */
static void serve_others(void)
{
	char address[PEER_ADDRESS_MAX];
	struct app_report r;

	run.channel.fd = run.other.fd = -1;
	open_own_server(&run.other);
	(void)peer_receive_text(&run.channel, address, sizeof(address));
	served.cpu_seconds = -cpu_seconds();
	if (printf("%s\n", address) < 0 || fflush(stdout))
		app_die("cannot print the address: %s", strerror(errno));
	serve_until_stopped();
	app_report_begin(&r, true, NULL);
	app_report_int(&r, "requests", served.requests, NULL);
	app_report_num(&r, "cpu_seconds", served.cpu_seconds, 3, NULL);
	app_report_end(&r);
}

/* Forks the server, or opens it in this thread. */
static void open_server(void)
{
	int fds[2];

	run.channel.fd = run.other.fd = -1;
	if (args.lane->one_thread) {
		run.server = peer_server_open(&args.job, &run.other);
		return;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) < 0)
		app_die("cannot make a socket: %s; raise ulimit -n", strerror(errno));
	fflush(NULL);
	run.pid = fork();
	if (run.pid < 0)
		app_die("cannot start the server: %s; end some processes", strerror(errno));
	run.channel.fd = fds[run.pid == 0];
	close(fds[run.pid != 0]);
	if (run.pid == 0)
		be_server();
}

/* Closes the server, in this process or its own. */
static void close_server(void)
{
	int status = 0;

	if (run.server)
		peer_server_close(run.server);
	if (!run.pid)
		return;
	kill(run.pid, SIGTERM);
	peer_receive_text(&run.channel, &served, sizeof(served));
	while (waitpid(run.pid, &status, 0) < 0 && errno == EINTR)
		;
}

static void close_both(void)
{
	if (args.lane->server_first)
		close_server();
	peer_client_close(run.client);
	if (!args.lane->server_first)
		close_server();
}

static void load_for(lend_ns time, uint64_t max)
{
	struct app_load *load = &run.load;
	int rc;

	load->time = time;
	load->max = max;
	load->quiet = true;
	load->start = start_slot;
	load->poll = run_turn;
	rc = app_load_run(load, run.order, args.job.window);
	run.calls += load->ended;
	if (rc < 0)
		app_die("%s: %s", args.job.lane, strerror(-rc));
}

static void run_measurement(void)
{
	for (unsigned i = 0; i < args.job.window; i++)
		run.order[i] = &run.slot[i];
	app_pattern_init(SEED, args.job.request);
	run.line_before = args.count ? 0 : app_cacheline_ns(app_cpu(0), app_cpu(1));
	alarm((unsigned)(args.time / 1000000000) * 3 +
	      LIMIT_S); /* ends both processes when a peer hangs */
	open_server();
	if (peer_this.pin_first)
		pin_side(0);
	run.client = peer_client_open(&args.job, &run.channel);
	pin_side(0);
	load_for(0, args.job.window);
	load_for(args.count ? 0 : args.time / WARM_SHARE + 1, args.count ? WARM_COUNT : 0);
	run.cpu_seconds = -cpu_seconds();
	load_for(args.count ? 0 : args.time, args.count);
	run.cpu_seconds += cpu_seconds();
	close_both();
	app_unpin();
	run.line_after = args.count ? 0 : app_cacheline_ns(app_cpu(0), app_cpu(1));
}

/* Returns whether the server's counters match the requests of the client exactly. */
static bool is_work_done(void)
{
	uint64_t calls = run.calls * (args.lane->to_all ? args.job.sessions : 1);

	return served.requests == calls && served.bytes == calls * args.job.request &&
	       served.replied == calls * args.job.reply;
}

/* Cycles per call. With both ends in one thread they are of its CPU time, which excludes other
 * processes on that CPU. With two threads they include waiting. */
static double cycles_per_call(void)
{
	const struct app_load *load = &run.load;
	double mine = load->cpu_seconds * 1e9 * load->ticks_per_ns;

	return (args.lane->one_thread ? mine : (double)load->ticks) / (double)load->ended;
}

static void write_report(void)
{
	struct app_report r;
	double payload = 8.0 * (double)args.job.request * app_load_rate(&run.load);

	app_report_begin(&r, args.json, peer_this.name);
	app_report_text(&r, "peer", peer_this.name, "the library");
	app_report_text(&r, "lane", args.job.lane, "what it goes over");
	app_load_report(&run.load, &r);
	app_report_num(&r, "cycles_per_call", cycles_per_call(), 1,
		       args.lane->one_thread ? "of the thread that is both ends"
					     : "of the client's core");
	app_report_num(&r, "both_cpu_us_per_call",
		       1e6 * (run.cpu_seconds / (double)run.load.ended +
			      served.cpu_seconds / (double)run.calls),
		       3, "us, all threads of both processes");
	app_report_num(&r, "gbit_per_s", payload / 1e9, 3, "10^9 bits of requests, one way");
	app_report_int(&r, "request", args.job.request, "bytes of a request");
	app_report_int(&r, "reply", args.job.reply, "bytes of its answer");
	app_report_int(&r, "window", args.job.window, "requests kept in flight");
	app_report_bool(&r, "rewrite", args.job.rewrite, "the bytes are written for each request");
	app_report_bool(&r, "sleep", args.job.sleep, "both ends sleep while they wait");
	app_report_bool(&r, "one_thread", args.lane->one_thread, "both ends in one thread");
	app_report_text(&r, "verified",
			peer_is_echo(&args.job) ? "memcmp"
			: args.job.ends         ? "crc32c of both ends"
						: "crc32c",
			"how what came was checked");
	app_report_bool(&r, "check_work", is_work_done(),
			"the server got and answered all that was asked");
	app_report_num(&r, "line_ns_before", run.line_before, 1, "ns, round trip of a cache line");
	app_report_num(&r, "line_ns_after", run.line_after, 1, "ns, after the run");
	app_report_end(&r);
}

int main(int argc, char **argv)
{
	lend_cli_name_set("peer-", peer_this.name);
	app_cpus(); /* before the first call that pins */
	peer_args_read(&args, argc, argv);
	if (args.serve) {
		serve_others();
		return APP_EXIT_OK;
	}
	run_measurement();
	write_report();
	return run.load.wrong_bytes || !is_work_done() ? APP_EXIT_FAILED : APP_EXIT_OK;
}
