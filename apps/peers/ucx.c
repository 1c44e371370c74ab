/* ucx - UCX's active messages, used like in its own benchmark: a handler per side, one worker each.
 * On the lane rkey the client writes requests into memory that the server maps (ucp_rkey_ptr) and
 * reads in place; an active message has the slot only. Layer: apps/peers. Threads: one per process.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

#include "apps/common/options.h"
#include "apps/peers/peer.h"

enum { AM_REQUEST, AM_REPLY, WAIT_MS = 50 };

struct end;

/* A long message that is fetched into memory of this process. */
struct incoming {
	struct end *end;
	ucp_ep_h reply_ep;
	unsigned slot;
	void *bytes;
	size_t len;
	struct incoming *next; /* free ones */
};

struct outgoing {
	uint32_t head; /* the slot, sent as the message's header */
	char sum[PEER_SUM_LEN];
	struct end *end;
	void *release; /* UCX's own memory, or NULL */
	struct incoming
	    *incoming; /* memory of this process that the message was fetched into, or NULL */
	struct outgoing *next; /* free ones */
};

struct end {
	const struct peer_job *job;
	ucp_context_h context;
	ucp_worker_h worker;
	ucp_ep_h ep; /* to the other side; the server has one on the lane rkey */
	int fd;      /* to sleep on; -1: this side polls */
	/* Lane rkey: the memory of requests, a slot each. The server maps it. */
	char *shared;
	ucp_mem_h memory;
	ucp_rkey_h rkey;
	struct incoming *incoming;
	struct outgoing *outgoing;
};

static void check_status(ucs_status_t status, const char *what)
{
	if (status != UCS_OK)
		app_die("%s: %s; UCX_LOG_LEVEL=info says more", what, ucs_status_string(status));
}

static bool is_rkey(const struct end *e)
{
	return !strcmp(e->job->lane, "rkey");
}

static char *shared_slot(const struct end *e, unsigned slot)
{
	return e->shared + e->job->request * slot;
}

/* Returns the state of a send request: NULL is done, else it is a pointer or an error. */
static ucs_status_t state_of(ucs_status_ptr_t request)
{
	if (!request)
		return UCS_OK;
	return UCS_PTR_IS_ERR(request) ? UCS_PTR_STATUS(request) : UCS_INPROGRESS;
}

static struct outgoing *take_outgoing(struct end *e)
{
	struct outgoing *out = e->outgoing;

	if (out)
		e->outgoing = out->next;
	else
		out = malloc(sizeof(*out));
	if (!out)
		app_die("no memory");
	*out = (struct outgoing){.end = e};
	return out;
}

static void give_outgoing(struct outgoing *out)
{
	struct end *e = out->end;

	if (out->release)
		ucp_am_data_release(e->worker, out->release);
	if (out->incoming) {
		out->incoming->next = e->incoming;
		e->incoming = out->incoming;
	}
	out->next = e->outgoing;
	e->outgoing = out;
}

static void on_sent(void *request, ucs_status_t status, void *arg)
{
	check_status(status, "a send failed");
	ucp_request_free(request);
	give_outgoing(arg);
}

/* Returns UCS_OK when out is free again, UCS_INPROGRESS when on_sent() frees it. */
static ucs_status_t send_am(struct outgoing *out, ucp_ep_h ep, unsigned id, const void *bytes,
			    size_t len)
{
	ucp_request_param_t param = {
	    .op_attr_mask =
		UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
	    .flags = id == AM_REQUEST ? UCP_AM_SEND_FLAG_REPLY : 0,
	    .cb.send = on_sent,
	    .user_data = out,
	};
	ucs_status_t status =
	    state_of(ucp_am_send_nbx(ep, id, &out->head, sizeof(out->head), bytes, len, &param));

	if (status == UCS_INPROGRESS)
		return status;
	check_status(status, "cannot send");
	return UCS_OK;
}

/* Answers with the bytes at `bytes`, which belong to UCX (keep) or to in. They stay in use until an
 * echo is sent. Returns UCS_INPROGRESS while UCX's memory is still in use. */
static ucs_status_t answer_bytes(struct end *e, ucp_ep_h ep, unsigned slot, void *bytes, size_t len,
				 struct incoming *in)
{
	struct outgoing *out = take_outgoing(e);
	const struct iovec part = {.iov_base = bytes, .iov_len = len};
	bool echo = peer_is_echo(e->job);

	out->head = slot;
	out->incoming = in;
	peer_serve(e->job, &part, 1, echo ? NULL : out->sum);
	if (send_am(out, ep, AM_REPLY, echo ? bytes : out->sum, echo ? len : PEER_SUM_LEN) ==
	    UCS_OK) {
		give_outgoing(out);
		return UCS_OK;
	}
	if (!echo || in)
		return UCS_OK;
	out->release = bytes;
	return UCS_INPROGRESS;
}

static struct incoming *take_incoming(struct end *e)
{
	struct incoming *in = e->incoming;

	if (in) {
		e->incoming = in->next;
		return in;
	}
	in = malloc(sizeof(*in));
	if (!in)
		app_die("no memory");
	in->bytes = malloc(e->job->request);
	if (!in->bytes)
		app_die("no memory; give a smaller --request");
	in->end = e;
	return in;
}

/* Ends a long message that is complete: at the server a request, at the client an echo. */
static void long_is_here(struct incoming *in)
{
	struct end *e = in->end;

	if (in->reply_ep) {
		(void)answer_bytes(e, in->reply_ep, in->slot, in->bytes, in->len, in);
		return;
	}
	peer_end_at(in->slot, in->bytes, in->len);
	in->next = e->incoming;
	e->incoming = in;
}

static void on_fetched(void *request, ucs_status_t status, size_t len, void *arg)
{
	(void)len;
	check_status(status, "a receive failed");
	ucp_request_free(request);
	long_is_here(arg);
}

static void fetch_message(struct end *e, ucp_ep_h reply_ep, unsigned slot, void *desc, size_t len)
{
	struct incoming *in = take_incoming(e);
	ucp_request_param_t param = {
	    .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
	    .cb.recv_am = on_fetched,
	    .user_data = in,
	};
	ucs_status_t status;

	in->reply_ep = reply_ep;
	in->slot = slot;
	in->len = len;
	status = state_of(ucp_am_recv_data_nbx(e->worker, desc, in->bytes, len, &param));
	if (status == UCS_INPROGRESS)
		return;
	check_status(status, "cannot receive");
	long_is_here(in);
}

static ucs_status_t on_message(void *arg, const void *head, size_t head_len, void *data, size_t len,
			       const ucp_am_recv_param_t *param)
{
	struct end *e = arg;
	ucp_ep_h ep = param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP ? param->reply_ep : NULL;
	uint32_t slot;

	if (head_len != sizeof(slot) || len > e->job->request)
		app_die("a message of another size than was sent");
	memcpy(&slot, head, sizeof(slot));
	if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
		fetch_message(e, ep, slot, data, len);
		return UCS_INPROGRESS;
	}
	if (e->rkey)
		return answer_bytes(e, ep, slot, shared_slot(e, slot), e->job->request, NULL);
	if (ep)
		return answer_bytes(e, ep, slot, data, len, NULL);
	peer_end_at(slot, data, len);
	return UCS_OK;
}

static void handle_message(struct end *e, unsigned id)
{
	ucp_am_handler_param_t param = {
	    .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
			  UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS,
	    .id = id,
	    .flags = UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA,
	    .cb = on_message,
	    .arg = e,
	};

	check_status(ucp_worker_set_am_recv_handler(e->worker, &param), "cannot set a handler");
}

/* "auto": UCX chooses. */
static const char *tls_of(const char *lane)
{
	if (!strcmp(lane, "posix") || !strcmp(lane, "rkey"))
		return "posix,self";
	return strcmp(lane, "auto") ? lane : "all";
}

static struct end *open_end(const struct peer_job *job, unsigned id)
{
	ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
			       .features = UCP_FEATURE_AM |
					   (job->sleep ? (uint64_t)UCP_FEATURE_WAKEUP : 0)};
	ucp_worker_params_t worker = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
				      .thread_mode = UCS_THREAD_MODE_SINGLE};
	struct end *e = calloc(1, sizeof(*e));
	ucp_config_t *config;

	if (!e)
		app_die("no memory");
	e->job = job;
	e->fd = -1;
	if (is_rkey(e) && peer_is_echo(job))
		app_bad("rkey passes requests only: --reply 8");
	if (is_rkey(e))
		params.features |= UCP_FEATURE_RMA;
	check_status(ucp_config_read(NULL, NULL, &config), "cannot read UCX's settings");
	check_status(ucp_config_modify(config, "TLS", tls_of(job->lane)),
		     "cannot choose a transport");
	check_status(ucp_init(&params, config, &e->context), "cannot start");
	ucp_config_release(config);
	check_status(ucp_worker_create(e->context, &worker, &e->worker), "cannot make a worker");
	if (job->sleep)
		check_status(ucp_worker_get_efd(e->worker, &e->fd), "cannot sleep");
	handle_message(e, id);
	return e;
}

static void connect_end(struct end *e, const void *address)
{
	ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
				  .address = address};

	check_status(ucp_ep_create(e->worker, &params, &e->ep), "cannot reach the other side");
}

static void send_address(struct end *e, struct peer_pipe *channel)
{
	ucp_address_t *address;
	size_t len;

	check_status(ucp_worker_get_address(e->worker, &address, &len), "no address");
	peer_send_text(channel, address, len);
	ucp_worker_release_address(e->worker, address);
}

/* Allocates the memory of requests, and sends the server the key to map it. */
static void share_memory(struct end *e, struct peer_pipe *channel)
{
	ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH |
						     UCP_MEM_MAP_PARAM_FIELD_FLAGS,
				       .length = e->job->request * e->job->window,
				       .flags = UCP_MEM_MAP_ALLOCATE};
	ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
	void *key;
	size_t len;

	check_status(ucp_mem_map(e->context, &params, &e->memory), "no memory");
	check_status(ucp_mem_query(e->memory, &attr), "no memory");
	e->shared = attr.address;
	check_status(ucp_rkey_pack(e->context, e->memory, &key, &len), "no key");
	send_address(e, channel);
	peer_send_text(channel, &e->shared, sizeof(e->shared));
	peer_send_text(channel, key, len);
	ucp_rkey_buffer_release(key);
}

/* Maps the memory of requests, as the server. */
static void map_memory(struct end *e, struct peer_pipe *channel)
{
	unsigned char text[PEER_ADDRESS_MAX];
	uint64_t address;
	void *here;

	peer_receive_text(channel, text, sizeof(text));
	connect_end(e, text);
	peer_receive_text(channel, &address, sizeof(address));
	peer_receive_text(channel, text, sizeof(text));
	check_status(ucp_ep_rkey_unpack(e->ep, text, &e->rkey), "cannot use the key");
	check_status(ucp_rkey_ptr(e->rkey, address, &here), "cannot map the memory");
	e->shared = here;
}

void *peer_server_open(const struct peer_job *job, struct peer_pipe *channel)
{
	struct end *e = open_end(job, AM_REQUEST);

	send_address(e, channel);
	if (is_rkey(e))
		map_memory(e, channel);
	return e;
}

void *peer_client_open(const struct peer_job *job, struct peer_pipe *channel)
{
	struct end *e = open_end(job, AM_REPLY);
	unsigned char address[PEER_ADDRESS_MAX];

	peer_receive_text(channel, address, sizeof(address));
	connect_end(e, address);
	if (is_rkey(e))
		share_memory(e, channel);
	return e;
}

void *peer_client_place(void *client, unsigned slot)
{
	struct end *e = client;

	return e->shared ? shared_slot(e, slot) : NULL;
}

int peer_client_start(void *client, unsigned slot, const void *request)
{
	struct end *e = client;
	struct outgoing *out = take_outgoing(e);
	size_t len = e->shared ? 0 : e->job->request;

	if (e->shared && request != shared_slot(e, slot))
		memcpy(shared_slot(e, slot), request, e->job->request);
	out->head = slot;
	if (send_am(out, e->ep, AM_REQUEST, request, len) == UCS_OK)
		give_outgoing(out);
	return 0;
}

void peer_turn(void *end)
{
	struct end *e = end;
	struct pollfd wait = {.fd = e->fd, .events = POLLIN};

	if (ucp_worker_progress(e->worker) == 0 && e->fd >= 0 &&
	    ucp_worker_arm(e->worker) == UCS_OK)
		poll(&wait, 1, WAIT_MS);
}

static void free_lists(struct end *e)
{
	for (struct outgoing *out = e->outgoing, *next; out; out = next) {
		next = out->next;
		free(out);
	}
	for (struct incoming *in = e->incoming, *next; in; in = next) {
		next = in->next;
		free(in->bytes);
		free(in);
	}
}

void peer_close(void *end)
{
	struct end *e = end;
	ucp_request_param_t param = {0};
	ucs_status_ptr_t request;

	if (e->rkey)
		ucp_rkey_destroy(e->rkey);
	request = e->ep ? ucp_ep_close_nbx(e->ep, &param) : NULL;
	while (state_of(request) == UCS_INPROGRESS &&
	       ucp_request_check_status(request) == UCS_INPROGRESS)
		ucp_worker_progress(e->worker);
	if (e->memory)
		ucp_mem_unmap(e->context, e->memory);
	ucp_worker_destroy(e->worker);
	ucp_cleanup(e->context);
	free_lists(e);
	free(e);
}

const struct peer peer_this = {
    "ucx",
    {{.name = "posix"}, {.name = "rkey"}, {.name = "shm"}, {.name = "tcp"}, {.name = "auto"}},
    false};
