/* cm - rdma_cm: answers requests for our queue pair, and resolves addresses to peers' queue pairs.
 *
 * A listener answers each request for its UDP port with its queue pair number; no connection
 * remains. A resolution takes three steps: address, route and one exchange (SIDR). Each step
 * reports on a channel that is read without blocking. A result is used once: after a restart of the
 * peer, the next resolution may find another queue pair at the same address. Layer: io. Threads:
 * one per carrier.
 */
#include "io/verbs/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sys/last_error.h"

enum { BACKLOG = 1024 };

/* Finds the source address that the kernel would route from. */
static int route_source(const struct verbs_address *to, uint8_t ip[16])
{
	struct sockaddr_storage addr;
	socklen_t len = verbs_ip_to(to->ip, to->port ? to->port : 1, &addr);
	int fd = socket(addr.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc = -1;

	if (fd >= 0)
		rc = connect(fd, (struct sockaddr *)&addr, len);
	len = sizeof(addr);
	if (rc == 0)
		rc = getsockname(fd, (struct sockaddr *)&addr, &len);
	if (fd >= 0)
		close(fd);
	if (rc == 0)
		verbs_ip_from((struct sockaddr *)&addr, ip);
	return rc;
}

/* Chooses our own address: a client uses the route's source, or an address of the device that it
 * named. */
static int choose_ip(struct verbs *v)
{
	struct ibv_context *ctx;
	struct ibv_gid_entry gid[64];
	uint8_t routed[16] = {0};
	int routes = route_source(&v->address, routed), found = -1;
	ssize_t n;

	if (routes == 0)
		memcpy(v->ip, routed, 16);
	if (strcmp(v->address.device, "any") != 0 && (ctx = verbs_device(v->address.device))) {
		n = ibv_query_gid_table(ctx, gid, 64, 0);
		for (ssize_t i = 0; i < n; i++) {
			if (gid[i].gid_type != IBV_GID_TYPE_ROCE_V2 ||
			    verbs_ip_is_v4(gid[i].gid.raw) != verbs_ip_is_v4(v->address.ip))
				continue;
			if (found < 0 || memcmp(gid[i].gid.raw, routed, 16) == 0)
				found = (int)i;
		}
		(void)ibv_close_device(ctx);
	}
	if (found >= 0)
		memcpy(v->ip, gid[found].gid.raw, 16);
	if (found < 0 && routes != 0)
		return lend_fail(EADDRNOTAVAIL,
				 "verbs:%s: no route to that address: check ip route",
				 v->address.device);
	return 0;
}

static int bind_failed(const struct verbs *v, int err)
{
	char ip[64];

	verbs_ip_print(v->ip, ip, sizeof(ip));
	if (err == EADDRINUSE)
		return lend_fail(EADDRINUSE, "verbs: port %u of %s is taken: use another, or 0",
				 v->port, ip);
	return lend_fail(err == ENODEV ? EADDRNOTAVAIL : err,
			 "verbs: %s is no address of an RDMA device here: rdma link and ip address "
			 "show them",
			 ip);
}

static int bind_id(struct verbs *v)
{
	struct sockaddr_storage addr;

	v->cm = rdma_create_event_channel();
	if (v->cm == NULL || fcntl(v->cm->fd, F_SETFL, O_NONBLOCK) != 0 ||
	    rdma_create_id(v->cm, &v->id, NULL, RDMA_PS_UDP) != 0)
		return lend_fail(errno,
				 "verbs: no connection manager: modprobe rdma_ucm, and check the "
				 "rights of /dev/infiniband/rdma_cm");
	(void)verbs_ip_to(v->ip, v->port, &addr);
	if (rdma_bind_addr(v->id, (struct sockaddr *)&addr) != 0)
		return bind_failed(v, errno);
	if (v->id->verbs == NULL)
		return bind_failed(v, ENODEV);
	return 0;
}

int verbs_cm_open(struct verbs *v)
{
	const char *device;
	char ip[64];
	int rc = 0;

	memcpy(v->ip, v->address.ip, 16);
	if (v->listening)
		v->port = v->address.port;
	else
		rc = choose_ip(v);
	if (rc == 0)
		rc = bind_id(v);
	if (rc < 0)
		return rc;
	device = ibv_get_device_name(v->id->verbs->device);
	if (strcmp(v->address.device, "any") != 0 && strcmp(v->address.device, device) != 0) {
		verbs_ip_print(v->ip, ip, sizeof(ip));
		return lend_fail(ENODEV,
				 "verbs:%s: %s belongs to %s: write verbs:%s@%s:PORT, or any",
				 v->address.device, ip, device, device, ip);
	}
	strncpy(v->device, device, sizeof(v->device) - 1);
	v->port_num = v->id->port_num;
	v->port = ntohs(rdma_get_src_port(v->id));
	return 0;
}

int verbs_cm_listen(struct verbs *v)
{
	return rdma_listen(v->id, BACKLOG) == 0 ? 0 : bind_failed(v, errno);
}

static void forget_resolve(struct verbs *v, struct verbs_resolve *r)
{
	for (struct verbs_resolve **at = &v->asked; *at; at = &(*at)->next) {
		if (*at == r) {
			*at = r->next;
			break;
		}
	}
	if (r->id)
		(void)rdma_destroy_id(r->id);
	v->n_asked--;
	free(r);
}

void verbs_cm_close(struct verbs *v)
{
	while (v->asked)
		forget_resolve(v, v->asked);
	if (v->id)
		(void)rdma_destroy_id(v->id);
	if (v->cm)
		rdma_destroy_event_channel(v->cm);
}

static void answer_request(struct verbs *v, struct rdma_cm_event *event)
{
	struct rdma_conn_param param = {.qp_num = v->qp->qp_num};

	if (v->life != VERBS_UP || rdma_accept(event->id, &param) != 0)
		(void)rdma_reject(event->id, NULL, 0);
}

/* Takes the next step of a resolution: 0, or an errno that ends it. */
static int advance_resolve(struct verbs *v, struct verbs_resolve *r,
			   const struct rdma_cm_event *event)
{
	struct rdma_conn_param param = {.qp_num = v->qp->qp_num};

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		r->fix = "no route: check ip route and the subnet manager";
		return rdma_resolve_route(r->id, VERBS_RESOLVE_MS) == 0 ? 0 : errno;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		r->fix = "no answer: is its process running, and the address right?";
		return rdma_connect(r->id, &param) == 0 ? 0 : errno;
	case RDMA_CM_EVENT_ESTABLISHED:
		if (event->param.ud.qkey != RDMA_UDP_QKEY) {
			r->fix = "its Q_Key is its own, so it is no Lend endpoint";
			return EPROTO;
		}
		r->path = event->param.ud.ah_attr;
		r->qp = event->param.ud.qp_num;
		r->state = VERBS_KNOWN;
		return 0;
	default:
		return event->event == RDMA_CM_EVENT_UNREACHABLE ||
			       event->event == RDMA_CM_EVENT_REJECTED
			   ? EHOSTUNREACH
		       : event->status < 0 ? -event->status
					   : EHOSTUNREACH;
	}
}

/* Handles an event. True when its id is no longer needed. */
static bool take_event(struct verbs *v, struct rdma_cm_event *event)
{
	struct verbs_resolve *r = event->id->context;

	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		answer_request(v, event);
		return true;
	}
	if (event->event == RDMA_CM_EVENT_DEVICE_REMOVAL) {
		v->removed = true;
		return false;
	}
	if (event->id == v->id || r == NULL || r->state != VERBS_RESOLVING)
		return false;
	r->err = advance_resolve(v, r, event);
	if (r->err != 0)
		r->state = VERBS_FAILED;
	if (r->state == VERBS_RESOLVING)
		return false;
	r->id = NULL;
	return true;
}

void verbs_cm_turn(struct verbs *v)
{
	struct rdma_cm_event *event;

	while (rdma_get_cm_event(v->cm, &event) == 0) {
		struct rdma_cm_id *id = event->id;
		bool done = take_event(v, event);

		(void)rdma_ack_cm_event(event); /* ack before its id is destroyed */
		if (done)
			(void)rdma_destroy_id(id);
	}
}

static int start_resolve(struct verbs *v, const char *text, const struct verbs_address *to)
{
	struct sockaddr_storage from, addr;
	struct verbs_resolve *r;

	for (r = v->asked; v->n_asked >= VERBS_RESOLVES && r; r = r->next) {
		if (r->state != VERBS_RESOLVING) { /* its result was not fetched */
			forget_resolve(v, r);
			break;
		}
	}
	if (v->n_asked >= VERBS_RESOLVES)
		return -EINPROGRESS; /* retry when another resolution is done */
	r = calloc(1, sizeof(*r));
	if (r == NULL)
		return lend_fail(ENOMEM, "%s: no memory to ask for it", text);
	r->next = v->asked;
	v->asked = r;
	v->n_asked++;
	memcpy(r->address, text, strlen(text) + 1);
	r->fix = "not found: check ip route and ip neigh";
	(void)verbs_ip_to(v->ip, 0, &from);
	(void)verbs_ip_to(to->ip, to->port, &addr);
	if (rdma_create_id(v->cm, &r->id, r, RDMA_PS_UDP) == 0 &&
	    rdma_resolve_addr(r->id, (struct sockaddr *)&from, (struct sockaddr *)&addr,
			      VERBS_RESOLVE_MS) == 0)
		return -EINPROGRESS;
	r->err = errno;
	r->state = VERBS_FAILED;
	return -EINPROGRESS; /* the next call returns the error */
}

static int add_peer(struct verbs *v, const struct lend_udp_key *key, uint32_t *peer)
{
	int32_t index = lend_udp_peers_find(&v->peers, key);

	if (index == LEND_UDP_PEER_NONE)
		return lend_fail(ENOSPC, "verbs: no room for another peer; close some sessions");
	*peer = (uint32_t)index;
	return 0;
}

static int fetch_resolve(struct verbs *v, struct verbs_resolve *r, uint32_t *peer)
{
	struct lend_udp_key key = {.scope = r->qp};
	int rc;

	if (r->state == VERBS_FAILED) {
		rc = lend_fail(r->err, "%.100s: %s", r->address, r->fix);
	} else {
		if (r->path.is_global)
			memcpy(key.ip, r->path.grh.dgid.raw, 16);
		if (!v->ethernet)
			key.port = r->path.dlid;
		verbs_host_set_path(v, &key, r->path.sl, r->path.src_path_bits);
		rc = add_peer(v, &key, peer);
	}
	forget_resolve(v, r);
	return rc;
}

int verbs_cm_resolve(struct verbs *v, const char *text, uint32_t *peer)
{
	struct verbs_address to;
	struct verbs_resolve *r = v->asked;
	int rc;

	while (r && strcmp(r->address, text) != 0)
		r = r->next;
	if (r) {
		verbs_cm_turn(v);
		return r->state == VERBS_RESOLVING ? -EINPROGRESS : fetch_resolve(v, r, peer);
	}
	rc = verbs_address_parse(text, &to);
	if (rc < 0)
		return rc;
	if (strlen(text) >= sizeof(r->address) || (to.port == 0 && to.qp == 0))
		return lend_fail(EINVAL, "%.100s: no peer address: write verbs:DEVICE@IP:PORT",
				 text);
	if (v->life != VERBS_UP)
		return lend_fail(ENETDOWN, "%.100s: %s was removed or lost its address", text,
				 v->device);
	if (to.qp != 0 && v->ethernet) {
		struct lend_udp_key key = {.scope = to.qp};

		memcpy(key.ip, to.ip, 16);
		return add_peer(v, &key, peer);
	}
	return start_resolve(v, text, &to);
}
