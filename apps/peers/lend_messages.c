/* lend_messages - protobuf messages over Lend: the service of echo.proto with protoc-c's stubs.
 *
 * On lanes NAME-one both ends are in one thread. On lanes NAME-copied the same calls copy, as
 * usual: protobuf-c packs a message into a buffer, and unpacks one into memory of its own. Layer:
 * apps/peers. Threads: one per process. */
#include <errno.h>
#include <string.h>

#include "apps/common/closed_loop.h"
#include "apps/common/options.h"
#include "apps/peers/lend_end.h"
#include "echo.pb-c.h"
#include "lend/grpc.h"

enum { COPIED = 1, SESSIONS_MAX = 1024 };

struct slot {
	struct lend_call call; /* if the lane copies */
	Asking__Bytes message;
};

/* The client, and what both sides know. */
static struct {
	const struct peer_job *job;
	char carrier[16]; /* the lane's */
	bool copies;
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

static void serve_talk(Asking__Asking_Service *service, const Asking__Bytes *in,
		       Asking__Bytes_Closure closure, void *closure_data)
{
	(void)service, (void)in, (void)closure;
	lend_pb_fail(closure_data, LEND_UNIMPLEMENTED, "");
}

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
	if (lend_pb_serve(end.server, &service.base) < 0 ||
	    lend_serve(end.server, COPIED, serve_copied, NULL, 0) < 0)
		app_die("%s", lend_why());
	peer_end_announce(end.server, channel);
	return end.server;
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
	}
	return end.ep;
}

static unsigned number_of(const struct slot *slot)
{
	return (unsigned)(slot - end.slot);
}

static void check_status(enum lend_status status)
{
	if (status != LEND_OK)
		app_die("a call ended %s: is the server still running?", app_status_name(status));
}

static void end_asked(const Asking__Bytes *reply, void *arg)
{
	const struct slot *slot = arg;

	if (!reply)
		app_die("a call got no reply: is the server still running?");
	peer_end_at(number_of(slot), reply->data.data, reply->data.len);
}

static void end_copied(struct lend_call *call)
{
	struct slot *slot = APP_OF(call, struct slot, call);
	Asking__Bytes *reply;

	check_status(call->status);
	lend_buf_give(end.ep, call->request);
	reply = unpack_message(call->reply);
	call->request = call->reply = NULL;
	peer_end_at(number_of(slot), reply->data.data, reply->data.len);
	asking__bytes__free_unpacked(reply, NULL);
}

static int start_copied(struct slot *slot, lend_session session)
{
	struct lend_buf *request = pack_message(end.ep, &slot->message);
	int rc = -EAGAIN;

	if (!request)
		return rc;
	slot->call.method = COPIED;
	slot->call.timeout = LEND_NEVER;
	slot->call.queue = 1;
	slot->call.in_place = 1;
	slot->call.done = end_copied;
	slot->call.request = request;
	rc = lend_call_start(end.ep, session, &slot->call);
	if (rc < 0)
		lend_buf_give(end.ep, request);
	return rc;
}

int peer_client_start(void *client, unsigned i, const void *request)
{
	unsigned session = end.calls++ % end.job->sessions;
	struct slot *slot = &end.slot[i];

	(void)client;
	asking__bytes__init(&slot->message);
	slot->message.data = (ProtobufCBinaryData){end.job->request, (uint8_t *)(uintptr_t)request};
	if (end.copies)
		return start_copied(slot, end.session[session]);
	asking__asking__ask(end.service[session], &slot->message, end_asked, slot);
	return 0;
}

void peer_turn(void *side)
{
	peer_end_turn(end.job, side);
}

void peer_close(void *side)
{
	lend_close(side);
	lend_pb_end(side);
	for (unsigned i = 0; i < SESSIONS_MAX && side == end.ep; i++)
		if (end.service[i])
			protobuf_c_service_destroy(end.service[i]);
}

const struct peer peer_this = {
    .name = "lend_messages",
    .lane = {{.name = "shm", .sessions_max = SESSIONS_MAX},
	     {.name = "udp", .sessions_max = SESSIONS_MAX},
	     {.name = "shm-copied", .sessions_max = SESSIONS_MAX},
	     {.name = "udp-copied", .sessions_max = SESSIONS_MAX},
	     {.name = "shm-one", .sessions_max = SESSIONS_MAX, .one_thread = true},
	     {.name = "udp-one", .sessions_max = SESSIONS_MAX, .one_thread = true},
	     {.name = "shm-one-copied", .sessions_max = SESSIONS_MAX, .one_thread = true},
	     {.name = "udp-one-copied", .sessions_max = SESSIONS_MAX, .one_thread = true}}};
