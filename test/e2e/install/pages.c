/* pages - examples of the man 3 pages, which scripts/man3.py takes from here.
 *   pages            runs them all; the memory node is at shm:mn0
 * A server and its client are two endpoints of this process, each with its own thread.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lend/alloc.h>
#include <lend/carrier.h>
#include <lend/mem.h>
#include <lend/one_sided.h>
#include <lend/stats.h>
#include <lend/stream.h>

enum { SUM = 1, ERASE = 2, COUNT = 3 };

/* Waits for an operation that start() has started. Returns whether it ended OK. */
static bool ends_ok(struct lend_mem *mem, struct lend_op *op, int started)
{
	return started == 0 && lend_op_wait(mem, op) == 0 && op->status == LEND_OK;
}

/* Stores a text as a snapshot, reads it back and releases it. */
static bool store_and_read(struct lend_mem *mem)
{
	char text[] = "a snapshot", copy[sizeof(text)];
	struct iovec data = {text, sizeof(text)}, into = {copy, sizeof(copy)};
	struct lend_op put = {.done = NULL}, get = {.done = NULL}, release = {.done = NULL};

	return ends_ok(mem, &put, lend_put(mem, &data, 1, NULL, &put)) &&
	       ends_ok(mem, &get, lend_get(mem, &put.ref, 0, &into, 1, &get)) &&
	       ends_ok(mem, &release, lend_release(mem, &put.ref, 1, &release)) &&
	       strcmp(text, copy) == 0;
}

/* Prints a reference to the first half of a snapshot, which permits reads only. */
static bool print_half(struct lend_mem *mem, const struct lend_ref *ref)
{
	struct lend_ref half;
	char text[200];

	if (lend_ref_slice(ref, 0, lend_ref_len(ref) / 2, LEND_READ, &half) < 0 ||
	    lend_ref_text(mem, &half, text, sizeof(text)) < 0)
		return false;
	printf("%s\n", text);
	return lend_ref_parse(mem, text, &half) == 0;
}

/* Changes one byte of a copy-on-write view. *changed: the snapshot with the change. */
static bool change_byte(struct lend_mem *mem, const struct lend_ref *ref, struct lend_ref *changed)
{
	struct lend_op seal = {.done = NULL};
	struct iovec byte = {"x", 1};
	lend_space space;
	int rc = lend_space_map_sync(mem, ref, &space, NULL);

	if (rc)
		return false;
	rc = lend_space_write_sync(mem, space, 0, &byte, 1, NULL);
	if (!rc)
		rc = lend_space_seal_sync(mem, space, 0, lend_ref_len(ref), NULL, &seal);
	*changed = seal.ref;
	return !lend_space_free_sync(mem, space, NULL) && !rc;
}

/* Fills a new space through a pointer. Returns the snapshot in *ref. */
static bool fill_pages(struct lend_mem *mem, size_t len, struct lend_ref *ref)
{
	struct lend_op fetch = {.done = NULL}, seal = fetch;
	lend_space space;
	char *bytes;
	bool fine;

	if (lend_space_alloc_sync(mem, len, &space, NULL))
		return false;
	bytes = lend_space_pointer(mem, space);
	fine = !bytes || ends_ok(mem, &fetch, lend_space_prefetch(mem, space, 0, len, &fetch));
	if (bytes && fine) /* NULL where a machine offers none: lend_space_write() works there */
		memset(bytes, 'y', len);
	fine = fine && !lend_space_seal_sync(mem, space, 0, len, NULL, &seal) &&
	       lend_space_intact(mem, space) == 0;
	*ref = seal.ref;
	return !lend_space_free_sync(mem, space, NULL) && fine;
}

/* Prints how much of a node is in use. */
static bool print_node(struct lend_mem *mem)
{
	struct lend_op op = {.done = NULL};
	struct lend_mem_stat stat;

	if (!ends_ok(mem, &op, lend_mem_stat_get(mem, 0, &stat, &op)))
		return false;
	printf("%llu of %llu pages\n", (unsigned long long)stat.pages_used,
	       (unsigned long long)stat.pages_total);
	return true;
}

/* Allocates memory that devices can send from. */
static bool use_heap(void)
{
	struct lend_alloc_stat stat;
	char *line = lend_malloc(100), *page = lend_aligned(4096, 4096);
	bool fine = line && page && lend_usable(line) >= 100;

	lend_free(line);
	lend_free(page);
	lend_alloc_trim();
	lend_alloc_stat_get(&stat);
	return fine && stat.used <= stat.mapped;
}

/* Stands for the registration of a region with a device. */
static int add_region(void *device, void *memory, size_t len, uint64_t *key)
{
	*key = (uintptr_t)memory;
	*(size_t *)device += len;
	return 0;
}

static void remove_region(void *device, void *memory, size_t len, uint64_t key)
{
	(void)memory;
	(void)key;
	*(size_t *)device -= len;
}

static bool watch_heap(void)
{
	size_t device = 0; /* registered bytes */
	struct lend_alloc_watch watch = {add_region, remove_region, &device};
	int number = lend_alloc_watch_add(&watch);
	void *p = lend_malloc(1 << 20);
	uint64_t key;
	bool fine = number >= 0 && p && lend_alloc_key(number, p, &key) && device > 0;

	lend_free(p);
	if (number >= 0)
		lend_alloc_watch_remove(number);
	return fine && device == 0;
}

/* A LEND_SLOW handler: adds bytes until the caller no longer waits. */
static void answer_sum(lend_request request, const struct lend_buf *in, void *arg)
{
	struct lend_ep *ep = arg;
	struct lend_buf *out = lend_buf_take(ep, 8);
	uint64_t total = 0;

	for (uint32_t i = 0; i < in->len; i++) {
		if (i % 4096 == 0 &&
		    (lend_request_cancelled(ep, request) || lend_request_left(ep, request) == 0))
			break; /* the answer would not arrive in time */
		total += ((const unsigned char *)in->data)[i];
	}
	if (out) {
		memcpy(out->data, &total, sizeof(total));
		out->len = sizeof(total);
	}
	lend_reply(ep, request, out ? LEND_OK : LEND_RESOURCE_EXHAUSTED, out);
}

/* Serves only peers that proved a secret. */
static void answer_erase(lend_request request, const struct lend_buf *in, void *arg)
{
	struct lend_ep *ep = arg;
	lend_session session = lend_request_session(ep, request);
	bool may = lend_session_knows(ep, session, "example");

	(void)in;
	lend_reply(ep, request, may ? LEND_OK : LEND_PERMISSION_DENIED, NULL);
}

/* One end of a stream. */
struct tally {
	struct lend_stream stream; /* must be the first member */
	struct lend_ep *ep;
	size_t bytes;
	bool over;
};

/* Counts the bytes of the peer's messages. The server then ends the stream. */
static void count_messages(struct lend_stream *stream)
{
	struct tally *tally = (struct tally *)stream;
	struct lend_buf *message;
	int rc;

	while ((rc = lend_stream_read(tally->ep, stream, &message)) == 0) {
		tally->bytes += message->len;
		lend_buf_give(tally->ep, message);
	}
	if (rc == -ENODATA && stream->method == 0)
		lend_stream_end(tally->ep, stream, tally->bytes == 6 ? LEND_OK : LEND_DATA_LOSS,
				"count what was read");
}

static void free_tally(struct lend_stream *stream)
{
	free(stream);
}

static void accept_count(lend_request request, void *ep)
{
	struct tally *tally = calloc(1, sizeof(*tally));

	if (!tally)
		return; /* refuses the stream */
	tally->stream.readable = count_messages;
	tally->stream.ended = free_tally;
	tally->ep = ep;
	if (lend_stream_accept(ep, request, &tally->stream) < 0)
		free(tally);
}

static void ring_late(struct lend_alarm *alarm)
{
	(void)alarm;
	fprintf(stderr, "pages: the server runs for an hour\n");
}

static void *run_server(void *arg)
{
	struct lend_alarm late = {.ring = ring_late};
	struct lend_ep *ep = arg;

	lend_alarm_set(ep, &late, lend_now(ep) + 3600 * UINT64_C(1000000000));
	if (lend_serve(ep, SUM, answer_sum, ep, LEND_SLOW) == 0 &&
	    lend_serve(ep, ERASE, answer_erase, ep, 0) == 0 &&
	    lend_serve_stream(ep, COUNT, accept_count, ep) == 0)
		lend_run(ep, LEND_NEVER); /* until lend_stop() */
	lend_alarm_set(ep, &late, LEND_NEVER);
	return NULL;
}

/* Prints the counters that are not zero, and the RTT of each session. */
static void print_stats(struct lend_ep *ep)
{
	struct lend_session_stats session;
	const char *name, *meaning;
	uint64_t value;

	for (unsigned i = 0; lend_stats_each(ep, i, &name, &meaning, &value); i++)
		if (value)
			printf("%-24s %8llu  %s\n", name, (unsigned long long)value, meaning);
	for (unsigned i = 0; (i = lend_stats_session(ep, i, &session)) != 0;)
		printf("%s: %llu ns\n", session.peer, (unsigned long long)session.rtt);
}

/* A call, and whether it has ended. */
struct job {
	struct lend_call call;
	bool ended;
};

static void end_job(struct lend_call *call)
{
	((struct job *)(void *)call)->ended = true;
}

/* Waits for the end of a call in an event loop of the application. */
static void wait_for_job(struct lend_ep *ep, const struct job *job)
{
	struct pollfd fd = {.fd = lend_fd(ep), .events = POLLIN};

	while (!job->ended) {
		if (lend_prepare_sleep(ep))
			poll(&fd, 1, -1); /* and other descriptors of the application */
		lend_poll(ep);
	}
}

/* Makes a call that the server must refuse. */
static bool is_refused(struct lend_ep *ep, lend_session session)
{
	struct job job = {.call = {.method = ERASE, .done = end_job}};

	if (lend_call_start(ep, session, &job.call) < 0)
		return false;
	wait_for_job(ep, &job);
	return job.call.status == LEND_PERMISSION_DENIED;
}

static void end_tally(struct lend_stream *stream)
{
	((struct tally *)stream)->over = true;
}

/* Streams three messages to a server that counts them. */
static bool stream_messages(struct lend_ep *ep, lend_session session)
{
	struct tally tally = {
	    .stream = {.method = COUNT, .readable = count_messages, .ended = end_tally}, .ep = ep};
	struct lend_buf *message;

	if (lend_stream_open(ep, session, &tally.stream) < 0)
		return false;
	for (int i = 0; i < 3; i++) {
		message = lend_buf_take(ep, 2);
		memcpy(message->data, "ab", message->len = 2);
		if (lend_stream_write(ep, &tally.stream, message) < 0) /* more: wait for writable */
			lend_stream_cancel(ep, &tally.stream);
	}
	lend_stream_finish(ep, &tally.stream);
	while (!tally.over)
		lend_wait(ep, LEND_NEVER);
	return tally.stream.status == LEND_OK;
}

/* Fills an argument in place and passes it. */
static bool pass_loan(struct lend_ep *ep, lend_session session)
{
	struct lend_call call = {.method = SUM};
	struct lend_loan loan;
	struct lend_mem *mem;
	struct iovec arg;

	if (lend_mem_open(ep, "", &mem) < 0 || lend_loan_take(mem, 1000, &loan) < 0)
		return false;
	memset(loan.data, 1, loan.len);
	arg = (struct iovec){loan.data, loan.len};
	if (lend_call_sync_args(mem, session, &call, &arg, 1) < 0)
		return false;
	lend_loan_give(mem, &loan);
	lend_mem_close(mem);
	lend_buf_give(ep, call.reply);
	return call.status == LEND_OK;
}

/* A pipe that the endpoint's thread reads between calls. */
struct feed {
	struct lend_fd_watch watch; /* must be the first member */
	struct lend_ep *ep;
	size_t bytes;
};

static void read_feed(struct lend_fd_watch *watch, unsigned events)
{
	struct feed *feed = (struct feed *)watch;
	char piece[4096];
	ssize_t n = read(watch->fd, piece, sizeof(piece));

	(void)events; /* LEND_FD_READ was all that it asked for */
	if (n > 0)
		feed->bytes += (size_t)n;
	else
		lend_watch_fd(feed->ep, watch, 0); /* the end */
}

/* Serves and calls until the pipe has ended. */
static bool reads_pipe(struct lend_ep *ep, int fd, size_t *bytes)
{
	struct feed feed = {.watch = {.ready = read_feed, .fd = fd}, .ep = ep};

	if (lend_watch_fd(ep, &feed.watch, LEND_FD_READ) < 0)
		return false;
	while (feed.watch.events)
		lend_wait(ep, LEND_NEVER);
	*bytes = feed.bytes;
	return true;
}

static bool watch_pipe(struct lend_ep *ep)
{
	size_t bytes = 0;
	int fd[2];
	bool fine = pipe(fd) == 0 && write(fd[1], "bytes", 5) == 5 && close(fd[1]) == 0 &&
		    reads_pipe(ep, fd[0], &bytes);

	close(fd[0]);
	return fine && bytes == 5;
}

/* Lets the peer's device read the bytes, if it can. *read: set when the peer has read them. Returns
 * the length of what to send to the peer; otherwise send the bytes. */
static int show_bytes(struct lend_ep *ep, lend_session session, void *bytes, size_t len,
		      void (*read)(void *arg), uint8_t shown[LEND_SHOWN_MAX])
{
	struct iovec run = {bytes, len};

	if (!lend_one_sided(ep, session, false))
		return -ENOTCONN;
	return lend_show(ep, session, &run, 1, read, bytes, shown);
}

static bool has_no_device(struct lend_ep *ep, lend_session session)
{
	uint8_t shown[LEND_SHOWN_MAX];
	char text[] = "text";

	return show_bytes(ep, session, text, sizeof(text), free, shown) == -ENOTCONN;
}

static bool call_server(struct lend_ep *ep)
{
	struct lend_call call = {.method = SUM};
	lend_session session;
	uint64_t total = 0;

	call.request = lend_buf_take(ep, 3);
	if (!call.request || lend_connect(ep, "shm:pages", &session) < 0)
		return false;
	memcpy(call.request->data, "\1\2\3", 3);
	call.request->len = 3;
	if (lend_call_sync(ep, session, &call) < 0 || call.status != LEND_OK)
		return false;
	memcpy(&total, call.reply->data, sizeof(total));
	lend_buf_give(ep, call.request);
	lend_buf_give(ep, call.reply);
	print_stats(ep);
	return total == 6 && is_refused(ep, session) && pass_loan(ep, session) &&
	       has_no_device(ep, session) && stream_messages(ep, session);
}

/* Returns whether a password may be sent to an address: only to processes of this user. */
static bool may_send_password(const char *address)
{
	return lend_carrier_traits(address) & LEND_CARRIER_USER;
}

static bool use_node(struct lend_ep *ep)
{
	struct lend_ref ref, changed;
	struct lend_mem *mem;
	bool fine;

	if (lend_mem_open(ep, "shm:mn0", &mem) < 0)
		return false;
	fine = store_and_read(mem) && fill_pages(mem, 8192, &ref) && print_half(mem, &ref) &&
	       change_byte(mem, &ref, &changed) && print_node(mem);
	lend_mem_close(mem); /* releases what it holds */
	return fine;
}

int main(void)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_ep *server, *client;
	pthread_t thread;
	bool fine;

	config.listen = "shm:pages";
	if (lend_open(&config, &server) < 0 || lend_open(NULL, &client) < 0 ||
	    pthread_create(&thread, NULL, run_server, server) != 0) {
		fprintf(stderr, "pages: %s\n", lend_why());
		return 1;
	}
	fine = call_server(client) && watch_pipe(client) && use_node(client) && use_heap() &&
	       watch_heap() && may_send_password("shm:pages") &&
	       !may_send_password("udp:127.0.0.1:1");
	if (!fine)
		fprintf(stderr, "pages: %s\n", lend_why());
	lend_stop(server);
	pthread_join(thread, NULL);
	lend_close(client);
	lend_close(server);
	return !fine;
}
