/* rdma_connect - the time of librdmacm until a reliable connection is up, for a comparison with a
 * session of Lend: addresses, route, queue pair, rdma_connect(). The first one of a process also
 * opens the device.
 * usage: rdma_connect serve IP PORT
 *        rdma_connect IP PORT COUNT     prints us: of the first one, median of the next COUNT */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/rdma_cma.h>

enum { RESOLVE_MS = 5000, COUNT_MAX = 1000 };

static _Noreturn void fail_with(const char *what)
{
	perror(what);
	exit(1);
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static struct sockaddr_in parse_address(const char *ip, const char *port)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)strtoul(port, NULL, 10))};

	if (inet_pton(AF_INET, ip, &at.sin_addr) != 1)
		fail_with(ip);
	return at;
}

static void make_queues(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {.cap = {16, 16, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	if (rdma_create_qp(id, NULL, &attr) < 0)
		fail_with("rdma_create_qp");
}

static void free_connection(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	rdma_destroy_id(id);
}

/* Accepts connections until it is killed. */
static _Noreturn void serve_connections(const char *ip, const char *port)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1};
	struct sockaddr_in at = parse_address(ip, port);
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	if (!channel || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) < 0 ||
	    rdma_bind_addr(id, (struct sockaddr *)&at) < 0 || rdma_listen(id, 64) < 0)
		fail_with("rdma_listen");
	puts("ready");
	fflush(stdout);
	while (rdma_get_cm_event(channel, &event) == 0) {
		struct rdma_cm_id *peer = event->id;
		enum rdma_cm_event_type type = event->event;

		rdma_ack_cm_event(event);
		if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
			make_queues(peer);
			if (rdma_accept(peer, &param) < 0)
				fail_with("rdma_accept");
		} else if (type == RDMA_CM_EVENT_DISCONNECTED) {
			free_connection(peer);
		}
	}
	fail_with("rdma_get_cm_event");
}

static void await_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(channel, &event) < 0)
		fail_with("rdma_get_cm_event");
	if (event->event != type) {
		fprintf(stderr, "rdma_connect: %s\n", rdma_event_str(event->event));
		exit(1);
	}
	rdma_ack_cm_event(event);
}

/* Returns the us until the connection is up; then ends it. */
static double connect_once(struct sockaddr_in *to)
{
	struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1};
	double began = now_us(), took;
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;

	if (!channel || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) < 0 ||
	    rdma_resolve_addr(id, NULL, (struct sockaddr *)to, RESOLVE_MS) < 0)
		fail_with("rdma_resolve_addr");
	await_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (rdma_resolve_route(id, RESOLVE_MS) < 0)
		fail_with("rdma_resolve_route");
	await_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	make_queues(id);
	if (rdma_connect(id, &param) < 0)
		fail_with("rdma_connect");
	await_event(channel, RDMA_CM_EVENT_ESTABLISHED);
	took = now_us() - began;
	rdma_disconnect(id);
	await_event(channel, RDMA_CM_EVENT_DISCONNECTED);
	free_connection(id);
	rdma_destroy_event_channel(channel);
	return took;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	static double took[COUNT_MAX];
	struct sockaddr_in to;
	double first;
	int count;

	if (argc != 4) {
		fprintf(stderr, "usage: rdma_connect serve IP PORT | IP PORT COUNT\n");
		return 2;
	}
	if (strcmp(argv[1], "serve") == 0)
		serve_connections(argv[2], argv[3]);
	to = parse_address(argv[1], argv[2]);
	count = atoi(argv[3]);
	if (count < 1 || count > COUNT_MAX)
		return 2;
	first = connect_once(&to);
	for (int i = 0; i < count; i++)
		took[i] = connect_once(&to);
	qsort(took, (size_t)count, sizeof(*took), by_size);
	printf("%.0f %.0f\n", first, took[count / 2]);
	return 0;
}
