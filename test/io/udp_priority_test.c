/* Goal: the kernel gets a datagram's class as its priority, by which the host's own queues sort,
 * alone and joined. Method: a carrier sends to a plain socket, which gets the priority of each
 * datagram. Kernels that cannot show it, from before Linux 6.15, are not tested.
 * Covers: src/io/udp/tx.c, src/io/udp/sock.c */
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/conform.h"

enum { SHOW_PRIORITY = 82 }; /* SO_RCVPRIORITY */

/* Returns a socket that gets priorities; -1: this kernel cannot. */
static int open_plain(char address[64])
{
	struct sockaddr_in self = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(self);
	int fd = socket(AF_INET, SOCK_DGRAM, 0), on = 1;

	cr_assert_geq(fd, 0);
	cr_assert_eq(bind(fd, (void *)&self, len), 0);
	cr_assert_eq(getsockname(fd, (void *)&self, &len), 0);
	(void)snprintf(address, 64, "udp:127.0.0.1:%u", ntohs(self.sin_port));
	if (setsockopt(fd, SOL_SOCKET, SHOW_PRIORITY, &on, sizeof(on)) == 0)
		return fd;
	(void)close(fd);
	return -1;
}

/* Returns the priority of the next datagram. */
static int receive_priority(int fd)
{
	_Alignas(struct cmsghdr) char control[128];
	char byte[2048];
	struct iovec iov = {byte, sizeof(byte)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	int priority = -1;

	cr_assert_eq(poll(&wait, 1, 5000), 1, "nothing arrives");
	cr_assert_geq(recvmsg(fd, &msg, 0), 0);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_PRIORITY)
			memcpy(&priority, CMSG_DATA(c), sizeof(priority));
	return priority;
}

Test(udp_priority, class__any__is_the_kernels_priority)
{
	static const struct {
		uint8_t class;
		int priority;
	} row[] = {{0, 6}, {1, 6}, {2, 6}, {3, 0}, {4, 2}, {7, 2}};
	char address[64];
	int fd = open_plain(address);
	struct lend_io *io;
	uint32_t to;

	if (fd < 0)
		cr_skip_test("this kernel shows no priorities");
	io = conform_client(address);
	to = conform_resolve(io, address, NULL);
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct lend_out out[2];

		for (uint32_t n = 1; n <= 2; n++) {
			for (uint32_t k = 0; k < n; k++)
				out[k] = (struct lend_out){.head = "abcdefgh",
							   .head_len = 8,
							   .peer = to,
							   .class = row[i].class};
			io->ops->tx(io, NULL, out, n);
			for (uint32_t k = 0; k < n; k++)
				cr_expect_eq(receive_priority(fd), row[i].priority, "class %u",
					     row[i].class);
		}
	}
	io->ops->close(io);
	(void)close(fd);
}
