/* lend_ref - Lend, passing each request by reference: memory of the caller that the server reads in
 * place (loan) or fetches (udp), or a memory node (node, pool).
 * Layer: apps/peers. Threads: one per process. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "apps/common/closed_loop.h"
#include "apps/common/options.h"
#include "apps/common/spawn.h"
#include "apps/common/topology.h"
#include "apps/peers/peer.h"
#include "lend/mem.h"

enum { ASK = 1, NODE = 0, CLIENT = 1, NODE_SPARE = 4, NODE_MIN = 64 << 20 };

struct slot {
	struct lend_call call;
	struct lend_loan loan; /* lane "loan": the memory that requests are written to */
	struct iovec bytes;
	struct lend_argument arg;
};

/* One process's side. */
static struct {
	const struct peer_job *job;
	struct lend_ep *ep;
	struct lend_mem *mem;
	lend_session session;
	struct slot slot[PEER_WINDOW_MAX];
	struct app_child node; /* the server's */
} end;

static bool is_lane(const char *name)
{
	return !strcmp(end.job->lane, name);
}

static bool has_node(void)
{
	return is_lane("node") || is_lane("pool");
}

static void check_rc(int rc)
{
	if (rc < 0)
		app_die("%s", lend_why());
}

static void open_end(const struct peer_job *job, const char *side)
{
	struct lend_config config = LEND_CONFIG_INIT;
	char shm[48];

	if (peer_is_echo(job))
		app_bad("lend_ref passes requests only: --reply 8");
	snprintf(shm, sizeof(shm), "shm:peer-%s-%d", side, (int)getpid());
	config.listen = !strcmp(job->lane, "udp") ? "udp:127.0.0.1:0" : shm;
	end.job = job;
	check_rc(lend_open(&config, &end.ep));
}

/* Starts the memory node and writes its address, or "" for a lane without one. */
static void start_node(char address[APP_ADDRESS_MAX])
{
	static struct app_net net;
	uint64_t size = NODE_SPARE * end.job->request * end.job->window;

	address[0] = 0;
	if (!has_node())
		return;
	app_net_init(&net, app_carrier_of("shm:"));
	app_net_add(&net);
	app_net_add(&net);
	app_net_link(&net, CLIENT, NODE);
	app_net_plan(&net);
	if (is_lane("pool"))
		app_net_pool(&net, NODE);
	app_child_start_mn(&end.node, &net, NODE, size > NODE_MIN ? size : NODE_MIN, APP_ANY_CPU);
	snprintf(address, APP_ADDRESS_MAX, "%s", app_net_address(&net, CLIENT, NODE));
}

static void answer_request(lend_request request, const struct lend_arg *args, int n, void *arg)
{
	struct iovec part = {(void *)(uintptr_t)args->bytes, args->len};
	uint8_t sum[PEER_SUM_LEN];

	(void)arg;
	if (n != 1)
		app_die("a request without its argument");
	peer_serve(end.job, &part, 1, sum);
	lend_reply_copy(end.ep, request, LEND_OK, sum, sizeof(sum));
}

void *peer_server_open(const struct peer_job *job, struct peer_pipe *channel)
{
	char address[128], node[APP_ADDRESS_MAX];

	open_end(job, "server");
	start_node(node);
	check_rc(lend_mem_open(end.ep, node, &end.mem));
	check_rc(lend_serve_args(end.mem, ASK, answer_request, NULL, LEND_ARGS_MAP));
	check_rc(lend_address(end.ep, address, sizeof(address)));
	peer_send_text(channel, node, strlen(node) + 1);
	peer_send_text(channel, address, strlen(address) + 1);
	return &end;
}

void *peer_client_open(const struct peer_job *job, struct peer_pipe *channel)
{
	char address[PEER_ADDRESS_MAX], node[PEER_ADDRESS_MAX];
	static const uint8_t none[sizeof(((struct lend_peer *)0)->incarnation)];
	struct lend_peer peer;

	open_end(job, "client");
	peer_receive_text(channel, node, sizeof(node));
	peer_receive_text(channel, address, sizeof(address));
	check_rc(lend_mem_open(end.ep, node, &end.mem));
	check_rc(lend_connect(end.ep, address, &end.session));
	do { /* nothing is lent before the session is up */
		check_rc(lend_poll(end.ep));
		check_rc(lend_session_peer(end.ep, end.session, &peer));
	} while (!memcmp(peer.incarnation, none, sizeof(none)));
	for (unsigned i = 0; is_lane("loan") && i < job->window; i++)
		check_rc(lend_loan_take(end.mem, job->request, &end.slot[i].loan));
	return &end;
}

void *peer_client_place(void *client, unsigned slot)
{
	(void)client;
	return end.slot[slot].loan.data;
}

static void call_done(struct lend_call *call)
{
	struct slot *slot = (struct slot *)(void *)call; /* its first member */
	struct lend_buf *reply = call->reply;

	if (call->status != LEND_OK)
		app_die("a call ended %s: is the server still running?",
			app_status_name(call->status));
	call->reply = NULL;
	peer_end_at((unsigned)(slot - end.slot), reply->data, reply->len);
	lend_buf_give(end.ep, reply);
}

int peer_client_start(void *client, unsigned i, const void *request)
{
	struct slot *slot = &end.slot[i];

	(void)client;
	slot->call = (struct lend_call){.method = ASK, .timeout = LEND_NEVER, .done = call_done};
	slot->bytes = (struct iovec){(void *)(uintptr_t)request, end.job->request};
	slot->arg = (struct lend_argument){
	    .data = &slot->bytes, .n = 1, .way = has_node() ? LEND_ARG_NODE : LEND_ARG_CALLER};
	if (slot->loan.data && request != slot->loan.data)
		slot->bytes.iov_base = memcpy(slot->loan.data, request, end.job->request);
	return lend_call_start_argv(end.mem, end.session, &slot->call, &slot->arg, 1);
}

void peer_turn(void *side)
{
	(void)side;
	check_rc(lend_poll(end.ep));
}

void peer_close(void *side)
{
	(void)side;
	for (unsigned i = 0; i < PEER_WINDOW_MAX; i++)
		if (end.slot[i].loan.data)
			lend_loan_give(end.mem, &end.slot[i].loan);
	lend_mem_close(end.mem);
	lend_close(end.ep);
	if (end.node.pid) /* the server's */
		app_child_stop(&end.node);
}

const struct peer peer_this = {
    "lend_ref", {{.name = "loan"}, {.name = "udp"}, {.name = "node"}, {.name = "pool"}}, false};
