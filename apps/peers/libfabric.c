/* libfabric - libfabric's reliable datagrams (FI_EP_RDM), two-sided messages into posted buffers.
 * Layer: apps/peers. Threads: one per process, and the provider's own. */
#include <errno.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fabric.h>
#include <stdlib.h>
#include <string.h>

#include "apps/common/options.h"
#include "apps/peers/peer.h"

enum { HEAD = 8, SPARE = 8, BURST = 16, WAIT_MS = 50 };

/* A message of HEAD bytes (the slot) and a body; the context of its completion. */
struct message {
	struct fi_context2
	    context; /* first: owned by the provider while the operation is in flight */
	bool incoming;
	size_t len; /* bytes of the received body */
	unsigned char *bytes;
};

struct end {
	const struct peer_job *job;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	fi_addr_t other;
	bool is_server;
	unsigned messages;
	struct message *in, *out; /* `messages` of each; a request is sent with its slot's */
};

static void check_rc(long rc, const char *what)
{
	if (rc < 0)
		app_die("%s: %s; FI_LOG_LEVEL=info says more", what, fi_strerror((int)-rc));
}

static const char *provider_of(const char *lane)
{
	if (!strcmp(lane, "udp"))
		return "udp;ofi_rxd";
	if (!strcmp(lane, "tcp"))
		return "tcp;ofi_rxm";
	return strcmp(lane, "auto") ? lane
				    : NULL; /* NULL: the first provider that libfabric lists */
}

static struct fi_info *find_info(const struct peer_job *job)
{
	struct fi_info *hints = fi_allocinfo(), *info;
	const char *provider = provider_of(job->lane);
	/* shm's names are made of its process's; the others want an address to bind to. */
	const char *node = strcmp(job->lane, "shm") && provider ? "127.0.0.1" : NULL;

	if (!hints)
		app_die("no memory");
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode = 0;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	if (provider)
		hints->fabric_attr->prov_name = strdup(provider);
	check_rc(fi_getinfo(FI_VERSION(1, 17), node, NULL, node ? FI_SOURCE : 0, hints, &info),
		 "no such provider here");
	fi_freeinfo(hints);
	return info;
}

static void open_objects(struct end *e)
{
	struct fi_av_attr av = {.type = FI_AV_TABLE, .count = 2};
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_MSG,
				.size = 4 * PEER_WINDOW_MAX,
				.wait_obj = e->job->sleep ? FI_WAIT_UNSPEC : FI_WAIT_NONE};

	check_rc(fi_fabric(e->info->fabric_attr, &e->fabric, NULL), "no fabric");
	check_rc(fi_domain(e->fabric, e->info, &e->domain, NULL), "no domain");
	check_rc(fi_av_open(e->domain, &av, &e->av, NULL), "no address vector");
	check_rc(fi_cq_open(e->domain, &cq, &e->cq, NULL), "no completion queue");
	check_rc(fi_endpoint(e->domain, e->info, &e->ep, NULL), "no endpoint");
	check_rc(fi_ep_bind(e->ep, &e->av->fid, 0), "cannot bind");
	check_rc(fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV), "cannot bind");
	check_rc(fi_enable(e->ep), "cannot enable");
}

static void post_receive(struct end *e, struct message *m)
{
	long rc;

	while ((rc = fi_recv(e->ep, m->bytes, HEAD + e->job->request, NULL, FI_ADDR_UNSPEC, m)) ==
	       -FI_EAGAIN)
		fi_cq_read(e->cq, NULL, 0);
	check_rc(rc, "cannot post a buffer");
}

static struct message *make_messages(struct end *e, bool incoming, size_t len)
{
	struct message *m = calloc(e->messages, sizeof(*m));

	if (!m)
		app_die("no memory");
	for (unsigned i = 0; i < e->messages; i++) {
		m[i].incoming = incoming;
		m[i].bytes = malloc(HEAD + len);
		if (!m[i].bytes)
			app_die("no memory; give a smaller --request");
	}
	return m;
}

/* Sends this side's address to the other side and inserts its address into the address vector. */
static void exchange_addresses(struct end *e, struct peer_pipe *channel)
{
	unsigned char name[PEER_ADDRESS_MAX];
	size_t len = sizeof(name);

	check_rc(fi_getname(&e->ep->fid, name, &len), "no name");
	peer_send_text(channel, name, len);
	memset(name, 0, sizeof(name));
	peer_receive_text(channel, name, sizeof(name));
	if (fi_av_insert(e->av, name, 1, &e->other, 0, NULL) != 1)
		app_die("the other side's name is not taken");
}

static struct end *open_end(const struct peer_job *job, struct peer_pipe *channel, bool is_server)
{
	struct end *e = calloc(1, sizeof(*e));

	if (!e)
		app_die("no memory");
	e->job = job;
	e->is_server = is_server;
	e->messages = job->window + SPARE;
	e->info = find_info(job);
	open_objects(e);
	e->in = make_messages(e, true, job->request);
	e->out = make_messages(e, false, job->request);
	for (unsigned i = 0; i < e->messages; i++)
		post_receive(e, &e->in[i]);
	exchange_addresses(e, channel);
	return e;
}

/* Sends a message, the head of which is in its bytes. A short one is injected: its bytes may change
 * at once, and it completes without an event. Others are sent from the body's own memory. */
static long send_message(struct end *e, struct message *m, const void *body, size_t len)
{
	struct iovec iov[2] = {{.iov_base = m->bytes, .iov_len = HEAD},
			       {.iov_base = (void *)(uintptr_t)body, .iov_len = len}};

	if (HEAD + len > e->info->tx_attr->inject_size)
		return fi_sendv(e->ep, iov, NULL, 2, e->other, m);
	if (body != m->bytes + HEAD)
		memcpy(m->bytes + HEAD, body, len);
	return fi_inject(e->ep, m->bytes, HEAD + len, e->other);
}

/* Answers with the slot's outgoing message. It is free, since the client has received the slot's
 * previous answer. */
static void answer_message(struct end *e, struct message *in)
{
	bool echo = peer_is_echo(e->job);
	const struct iovec part = {.iov_base = in->bytes + HEAD, .iov_len = in->len};
	uint64_t slot;
	struct message *out;
	long rc;

	memcpy(&slot, in->bytes, HEAD);
	if (slot >= e->job->window)
		app_die("a message with another head than was sent");
	out = &e->out[slot];
	memcpy(out->bytes, in->bytes, HEAD);
	peer_serve(e->job, &part, 1, echo ? NULL : out->bytes + HEAD);
	if (echo) /* the buffer is posted again at once */
		memcpy(out->bytes + HEAD, in->bytes + HEAD, in->len);
	post_receive(e, in);
	while ((rc = send_message(e, out, out->bytes + HEAD,
				  echo ? e->job->request : PEER_SUM_LEN)) == -FI_EAGAIN)
		fi_cq_read(e->cq, NULL, 0);
	check_rc(rc, "cannot answer");
}

static void take_message(struct end *e, const struct fi_cq_msg_entry *entry)
{
	struct message *m = entry->op_context;
	uint64_t slot;

	if (!m || !m->incoming)
		return; /* a completed send */
	if (entry->len < HEAD)
		app_die("a message of another size than was sent");
	m->len = entry->len - HEAD;
	if (e->is_server) {
		answer_message(e, m);
		return;
	}
	memcpy(&slot, m->bytes, HEAD);
	peer_end_at((unsigned)slot, m->bytes + HEAD, m->len);
	post_receive(e, m);
}

void peer_turn(void *end)
{
	struct end *e = end;
	struct fi_cq_msg_entry entry[BURST];
	struct fi_cq_err_entry error = {0};
	ssize_t n = e->job->sleep ? fi_cq_sread(e->cq, entry, BURST, NULL, WAIT_MS)
				  : fi_cq_read(e->cq, entry, BURST);

	if (n == -FI_EAVAIL) {
		fi_cq_readerr(e->cq, &error, 0);
		check_rc(-error.err, "a message failed");
	}
	for (ssize_t i = 0; i < n; i++)
		take_message(e, &entry[i]);
}

void *peer_server_open(const struct peer_job *job, struct peer_pipe *channel)
{
	return open_end(job, channel, true);
}

void *peer_client_open(const struct peer_job *job, struct peer_pipe *channel)
{
	return open_end(job, channel, false);
}

int peer_client_start(void *client, unsigned slot, const void *request)
{
	struct end *e = client;
	uint64_t head = slot;
	long rc;

	memcpy(e->out[slot].bytes, &head, HEAD);
	rc = send_message(e, &e->out[slot], request, e->job->request);
	if (rc == -FI_EAGAIN)
		return -EAGAIN;
	check_rc(rc, "cannot send");
	return 0;
}

void peer_close(void *end)
{
	struct end *e = end;

	fi_close(&e->ep->fid);
	fi_close(&e->cq->fid);
	fi_close(&e->av->fid);
	fi_close(&e->domain->fid);
	fi_close(&e->fabric->fid);
	fi_freeinfo(e->info);
	for (unsigned i = 0; i < e->messages; i++) {
		free(e->in[i].bytes);
		free(e->out[i].bytes);
	}
	free(e->in);
	free(e->out);
	free(e);
}

const struct peer peer_this = {
    "libfabric", {{.name = "shm"}, {.name = "tcp"}, {.name = "udp"}, {.name = "auto"}}, false};
