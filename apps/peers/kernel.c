/* kernel - the lower bound for udp: one datagram in each direction over loopback, with both ends
 * polling the socket.
 * Layer: apps/peers. Threads: one per process. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apps/common/options.h"
#include "apps/peers/fifo.h"

enum { DATAGRAM_MAX = 4096, ROOM = 4 << 20, WAIT_MS = 50 };

struct end {
	const struct peer_job *job;
	int fd;
	struct peer_fifo fifo; /* loopback preserves the order */
	unsigned char bytes[DATAGRAM_MAX];
};

static struct end *open_end(const struct peer_job *job)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct end *e = calloc(1, sizeof(*e));
	int room = ROOM;

	if (!e)
		app_die("no memory");
	e->job = job;
	e->fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (e->fd < 0 || bind(e->fd, (struct sockaddr *)&any, sizeof(any)) < 0)
		app_die("no socket: %s; bring loopback up", strerror(errno));
	setsockopt(e->fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	return e;
}

/* Sends this end's address to the other side, receives its address and connects to it. */
static void exchange_addresses(struct end *e, struct peer_pipe *channel)
{
	struct sockaddr_in mine, other;
	socklen_t len = sizeof(mine);

	getsockname(e->fd, (struct sockaddr *)&mine, &len);
	peer_send_text(channel, &mine, sizeof(mine));
	peer_receive_text(channel, &other, sizeof(other));
	if (connect(e->fd, (struct sockaddr *)&other, sizeof(other)) < 0)
		app_die("no way to the other side: %s", strerror(errno));
}

static void *open_either(const struct peer_job *job, struct peer_pipe *channel)
{
	struct end *e = open_end(job);

	exchange_addresses(e, channel);
	return e;
}

/* Receives one datagram, or returns -1. Ends that may sleep do so until a datagram arrives. */
static ssize_t receive_datagram(struct end *e)
{
	struct pollfd wait = {.fd = e->fd, .events = POLLIN};

	if (e->job->sleep)
		poll(&wait, 1, WAIT_MS);
	return recv(e->fd, e->bytes, sizeof(e->bytes), MSG_DONTWAIT);
}

void peer_server_turn(void *server)
{
	struct end *e = server;
	ssize_t len = receive_datagram(e);
	struct iovec part = {.iov_base = e->bytes, .iov_len = (size_t)len};
	char sum[PEER_SUM_LEN];

	if (len < 0)
		return;
	peer_serve(e->job, &part, 1, peer_is_echo(e->job) ? NULL : sum);
	if (!peer_is_echo(e->job))
		part = (struct iovec){.iov_base = sum, .iov_len = sizeof(sum)};
	if (send(e->fd, part.iov_base, part.iov_len, 0) < 0)
		app_die("cannot answer: %s", strerror(errno));
}

int peer_client_start(void *client, unsigned slot, const void *request)
{
	struct end *e = client;

	if (send(e->fd, request, e->job->request, MSG_DONTWAIT) < 0)
		return -errno;
	peer_fifo_push(&e->fifo, slot);
	return 0;
}

void peer_client_turn(void *client)
{
	struct end *e = client;
	ssize_t len = receive_datagram(e);

	if (len >= 0)
		peer_end_at(peer_fifo_pop(&e->fifo), e->bytes, (size_t)len);
}

void peer_close(void *end)
{
	struct end *e = end;

	close(e->fd);
	free(e);
}

void *peer_server_open(const struct peer_job *job, struct peer_pipe *channel)
{
	return open_either(job, channel);
}

void *peer_client_open(const struct peer_job *job, struct peer_pipe *channel)
{
	return open_either(job, channel);
}

const struct peer peer_this = {
    "kernel", {{.name = "udp", .len_max = DATAGRAM_MAX, .window_max = 64}}, false};
