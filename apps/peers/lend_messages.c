/* lend_messages - protobuf messages over Lend: the service of echo.proto with protoc-c's stubs.
 *
 * On lanes NAME-stream requests and replies are the messages of one stream. On lanes NAME-all each
 * request goes to all sessions. On lanes NAME-one both ends are in one
 * thread. On lanes NAME-copied the same calls copy, as usual: protobuf-c packs a message into a
 * buffer, and unpacks one into memory of its own. Layer: apps/peers. Threads: one per process. */
#include <errno.h>
#include <string.h>

#include "apps/common/closed_loop.h"
#include "apps/common/options.h"
#include "apps/peers/fifo.h"
#include "apps/peers/lend_end.h"
#include "echo.pb-c.h"
#include "lend/alloc.h"
#include "lend/grpc.h"

enum { COPIED = 1, SESSIONS_MAX = 1024, FOLLOWERS_MAX = 16 };

/* A call of a lane that copies. */
struct copied_call {
	struct lend_call call;
	struct slot *slot;
};

struct slot {
	struct copied_call copied[FOLLOWERS_MAX];
	Asking__Bytes message;
	void *place;               /* memory that peers over shm read, for the data of requests */
	uint8_t *encoded;          /* to all sessions: the message's bytes */
	unsigned left;             /* calls without a reply */
	uint8_t sum[PEER_SUM_LEN]; /* to all sessions: what the last one answered */
};

/* The client, and what both sides know. */
static struct {
	const struct peer_job *job;
	char carrier[16]; /* the lane's */
	bool copies, to_all, streams;
	void *stream;           /* the client's */
	struct peer_fifo asked; /* slots of the stream's messages without a reply */
	struct lend_ep *ep, *server;
	struct slot slot[PEER_WINDOW_MAX];
	lend_session session[SESSIONS_MAX];
	ProtobufCService *service[SESSIONS_MAX];
	unsigned calls;
} end;

static void read_lane(const struct peer_job *job)
{
	end.job = job;
	memcpy(end.carrier, job->lane, strcspn(job->lane, "-"));
	end.copies = strstr(job->lane, "-copied");
	end.to_all = strstr(job->lane, "-all");
	end.streams = strstr(job->lane, "-stream");
}

static void make_answer(const Asking__Bytes *in, Asking__Bytes *out, uint8_t sum[PEER_SUM_LEN])
{
	const struct iovec part = {in->data.data, in->data.len};
	bool is_echo = peer_is_echo(end.job);

	peer_serve(end.job, &part, 1, is_echo ? NULL : sum);
	out->data = is_echo ? in->data : (ProtobufCBinaryData){PEER_SUM_LEN, sum};
}

static void serve_ask(Asking__Asking_Service *service, const Asking__Bytes *in,
		      Asking__Bytes_Closure closure, void *closure_data)
{
	Asking__Bytes out = ASKING__BYTES__INIT;
	uint8_t sum[PEER_SUM_LEN];

	(void)service;
	make_answer(in, &out, sum);
	closure(&out, closure_data);
}

static void go_on(void *stream, void *arg)
{
	(void)arg;
	lend_pb_pause(stream, false);
}

static void serve_talk(Asking__Asking_Service *service, const Asking__Bytes *in,
		       Asking__Bytes_Closure closure, void *closure_data)
{
	if (!in) {
		closure(NULL, closure_data);
		return;
	}
	serve_ask(service, in, closure, closure_data);
	if (lend_pb_check(closure_data) != -EAGAIN)
		return;
	lend_pb_on(closure_data, &(struct lend_pb_events){.writable = go_on});
	lend_pb_pause(closure_data, true);
}

static const enum lend_pb_kind kinds[] = {LEND_PB_UNARY, LEND_PB_BOTH_STREAM};

/* Packs a message into a buffer; NULL: none is free. */
static struct lend_buf *pack_message(struct lend_ep *ep, const Asking__Bytes *message)
{
	uint32_t len = (uint32_t)asking__bytes__get_packed_size(message);
	struct lend_buf *buf = lend_buf_take(ep, len);

	if (buf)
		buf->len = (uint32_t)asking__bytes__pack(message, buf->data);
	return buf;
}

static Asking__Bytes *unpack_message(const struct lend_buf *buf)
{
	Asking__Bytes *message = asking__bytes__unpack(NULL, buf->len, buf->data);

	if (!message)
		app_die("a message is not as it was sent");
	return message;
}

static void serve_copied(lend_request request, const struct lend_buf *bytes, void *arg)
{
	Asking__Bytes *in = unpack_message(bytes), out = ASKING__BYTES__INIT;
	uint8_t sum[PEER_SUM_LEN];
	struct lend_buf *reply;

	(void)arg;
	make_answer(in, &out, sum);
	reply = pack_message(end.server, &out);
	lend_reply(end.server, request, reply ? LEND_OK : LEND_RESOURCE_EXHAUSTED, reply);
	asking__bytes__free_unpacked(in, NULL);
}

void *peer_server_open(const struct peer_job *job, struct peer_pipe *channel)
{
	static Asking__Asking_Service service = ASKING__ASKING__INIT(serve_);

	read_lane(job);
	end.server = peer_end_open(job, peer_end_listen(end.carrier));
	if (lend_pb_serve_kinds(end.server, &service.base, kinds) < 0 ||
	    lend_serve(end.server, COPIED, serve_copied, NULL, 0) < 0)
		app_die("%s", lend_why());
	peer_end_announce(end.server, channel);
	return end.server;
}

static unsigned number_of(const struct slot *slot)
{
	return (unsigned)(slot - end.slot);
}

/* Ends a request with the reply of its last call. */
static void end_one(struct slot *slot, const Asking__Bytes *reply)
{
	if (slot->left < end.job->sessions && end.to_all &&
	    memcmp(slot->sum, reply->data.data, PEER_SUM_LEN) != 0)
		app_die("two sessions got different bytes");
	if (end.to_all)
		memcpy(slot->sum, reply->data.data, PEER_SUM_LEN);
	if (!--slot->left)
		peer_end_at(number_of(slot), reply->data.data, reply->data.len);
}

/* The closure of the stream. */
static void end_talked(const Asking__Bytes *reply, void *arg)
{
	struct slot *slot;

	(void)arg;
	if (!reply && end.stream)
		app_die("the stream has ended: is the server still running?");
	if (!reply)
		return;
	slot = &end.slot[peer_fifo_pop(&end.asked)];
	slot->left = 1;
	end_one(slot, reply);
}

static void keep_bytes(void *arg)
{
	(void)arg; /* they stay until the reply */
}

static int send_on_stream(unsigned i)
{
	int rc = lend_pb_send(end.stream, &end.slot[i].message.base, keep_bytes, NULL);

	if (rc == 0)
		peer_fifo_push(&end.asked, i);
	return rc;
}

void *peer_client_open(const struct peer_job *job, struct peer_pipe *channel)
{
	static const struct lend_call endless = {.timeout = LEND_NEVER};
	char address[PEER_ADDRESS_MAX];

	read_lane(job);
	end.ep = peer_end_open(job, NULL);
	app_pattern_register(end.ep);
	peer_receive_text(channel, address, sizeof(address));
	for (unsigned i = 0; i < job->sessions; i++) {
		peer_end_connect(end.ep, address, &end.session[i]);
		if (lend_pb_client(end.ep, end.session[i], &asking__asking__descriptor,
				   &end.service[i]) < 0)
			app_die("no memory for %u clients; give fewer --sessions", job->sessions);
		lend_pb_client_set(end.service[i], &endless);
		lend_pb_client_kinds(end.service[i], kinds);
	}
	if (end.streams) {
		asking__asking__talk(end.service[0], NULL, end_talked, NULL);
		end.stream = lend_pb_opened(end.service[0]);
	}
	return end.ep;
}

static void end_asked(const Asking__Bytes *reply, void *slot)
{
	if (!reply)
		app_die("a call got no reply: is the server still running?");
	end_one(slot, reply);
}

static void end_copied(struct lend_call *call)
{
	struct slot *slot = APP_OF(call, struct copied_call, call)->slot;
	Asking__Bytes *reply;

	if (call->status != LEND_OK)
		app_die("a call ended %s: is the server still running?",
			app_status_name(call->status));
	lend_buf_give(end.ep, call->request);
	reply = unpack_message(call->reply);
	call->request = call->reply = NULL;
	end_one(slot, reply);
	asking__bytes__free_unpacked(reply, NULL);
}

static int start_copied(struct slot *slot, unsigned i, lend_session session)
{
	struct lend_call *call = &slot->copied[i].call;
	int rc = -EAGAIN;

	slot->copied[i].slot = slot;
	call->method = COPIED;
	call->timeout = LEND_NEVER;
	call->queue = 1;
	call->in_place = 1;
	call->done = end_copied;
	call->request = pack_message(end.ep, &slot->message);
	if (call->request)
		rc = lend_call_start(end.ep, session, call);
	if (rc < 0)
		lend_buf_give(end.ep, call->request);
	return rc;
}

/* Starts a call to each session: encoded once, or packed for each. */
static int start_all(struct slot *slot)
{
	struct lend_pb_bytes bytes;
	const void *message = &slot->message;

	if (!slot->encoded && !end.copies)
		slot->encoded = lend_malloc_shared(asking__bytes__get_packed_size(&slot->message));
	if (slot->encoded)
		message = lend_pb_encoded(&bytes, slot->encoded,
					  asking__bytes__pack(&slot->message, slot->encoded));
	slot->left = end.job->sessions;
	for (unsigned i = 0; i < end.job->sessions; i++)
		if (!end.copies)
			asking__asking__ask(end.service[i], message, end_asked, slot);
		else if (start_copied(slot, i, end.session[i]) < 0)
			app_die("no buffer for %u copies", end.job->sessions);
	return 0;
}

void *peer_client_place(void *client, unsigned i)
{
	(void)client;
	if (!end.slot[i].place)
		end.slot[i].place = lend_malloc_shared(end.job->request);
	return end.slot[i].place;
}

int peer_client_start(void *client, unsigned i, const void *request)
{
	unsigned session = end.calls++ % end.job->sessions;
	struct slot *slot = &end.slot[i];

	(void)client;
	asking__bytes__init(&slot->message);
	slot->message.data = (ProtobufCBinaryData){end.job->request, (uint8_t *)(uintptr_t)request};
	if (end.to_all)
		return start_all(slot);
	if (end.streams)
		return send_on_stream(i);
	slot->left = 1;
	if (end.copies)
		return start_copied(slot, 0, end.session[session]);
	asking__asking__ask(end.service[session], &slot->message, end_asked, slot);
	return 0;
}

void peer_turn(void *side)
{
	peer_end_turn(end.job, side);
}

void peer_close(void *side)
{
	end.stream = NULL;
	lend_close(side);
	lend_pb_end(side);
	for (unsigned i = 0; i < SESSIONS_MAX && side == end.ep; i++)
		if (end.service[i])
			protobuf_c_service_destroy(end.service[i]);
}

#define ONE(NAME)                                                                                  \
	{                                                                                          \
		.name = NAME, .sessions_max = SESSIONS_MAX                                         \
	}
#define ALL(NAME, THREAD)                                                                          \
	{                                                                                          \
		.name = NAME, .sessions_max = FOLLOWERS_MAX, .to_all = true, .one_thread = THREAD  \
	}
#define THREAD(NAME)                                                                               \
	{                                                                                          \
		.name = NAME, .sessions_max = SESSIONS_MAX, .one_thread = true                     \
	}

const struct peer peer_this = {
    .name = "lend_messages",
    .lane = {ONE("shm"), ONE("udp"), ONE("shm-copied"), ONE("udp-copied"), THREAD("shm-one"),
	     THREAD("udp-one"), THREAD("shm-one-copied"), THREAD("udp-one-copied"),
	     ONE("shm-stream"), ONE("udp-stream"), ALL("shm-all", false), ALL("udp-all", false),
	     ALL("shm-all-copied", false), ALL("udp-all-copied", false), ALL("shm-one-all", true),
	     ALL("shm-one-all-copied", true)}};
