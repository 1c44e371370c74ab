#include "io/udp/sock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/udp/route.h"
#include "sys/last_error.h"
#include "util/bits.h"
#include "util/traffic_class.h"

enum {
	IPV4_HEADS = 28, /* IP and UDP */
	IPV6_HEADS = 48,
	BUFFER = 4 << 20, /* bytes asked for in each direction */
};

int lend_udp_lookup(const char *text, int family, struct sockaddr_storage *address)
{
	struct addrinfo hints = {.ai_family = family, .ai_socktype = SOCK_DGRAM}, *found = NULL;
	struct lend_addr addr;
	char port[8];
	int err = lend_addr_parse(text, &addr);

	if (err != 0)
		return err;
	(void)snprintf(port, sizeof(port), "%u", addr.port);
	err = getaddrinfo(addr.host, port, &hints, &found);
	if (err == EAI_AGAIN)
		return lend_fail(EAGAIN, "%s: no answer from the name server; try again", text);
	if (err != 0)
		return lend_fail(ENOENT, "%s: %s; check the host's name", text, gai_strerror(err));
	memset(address, 0, sizeof(*address));
	memcpy(address, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return 0;
}

bool lend_udp_is_stale(int err)
{
	return err == EINTR || err == ECONNREFUSED || err == EHOSTUNREACH || err == ENETUNREACH ||
	       err == EHOSTDOWN || err == EPROTO;
}

int lend_udp_format(const struct sockaddr_storage *a, char *text, size_t cap)
{
	char ip[INET6_ADDRSTRLEN] = "", scope[16] = "";
	int n;

	if (a->ss_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)a;

		(void)inet_ntop(AF_INET, &in->sin_addr, ip, sizeof(ip));
		n = snprintf(text, cap, "udp:%s:%u", ip, ntohs(in->sin_port));
	} else {
		const struct sockaddr_in6 *in = (const void *)a;

		(void)inet_ntop(AF_INET6, &in->sin6_addr, ip, sizeof(ip));
		if (in->sin6_scope_id != 0)
			(void)snprintf(scope, sizeof(scope), "%%%u", in->sin6_scope_id);
		n = snprintf(text, cap, "udp:[%s%s]:%u", ip, scope, ntohs(in->sin6_port));
	}
	return n < 0 || (size_t)n >= cap ? -ERANGE : 0;
}

static bool is_any(const struct sockaddr_storage *a)
{
	static const uint8_t zero[16];

	if (a->ss_family == AF_INET)
		return ((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr == 0;
	return memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, zero, 16) == 0;
}

/* Returns the largest payload. A listener on every interface uses the largest possible: its
 * clients know their own route, and a session uses the smaller of both ends' values. */
static uint32_t payload_max(const struct lend_io_config *config,
			    const struct sockaddr_storage *local,
			    const struct sockaddr_storage *peer)
{
	int heads = local->ss_family == AF_INET ? IPV4_HEADS : IPV6_HEADS;
	int mtu = LEND_UDP_ETHERNET;

	if (config->mtu != 0)
		return lend_min_u32(lend_max_u32(config->mtu, LEND_UDP_MTU_MIN), LEND_UDP_MTU_MAX);
	if (peer != NULL)
		mtu = lend_udp_route_mtu(peer);
	else if (config->listen != NULL)
		mtu = is_any(local) ? LEND_UDP_MTU_MAX + heads : lend_udp_interface_mtu(local);
	return lend_min_u32((uint32_t)(mtu - heads), LEND_UDP_MTU_MAX);
}

static void enlarge_buffer(int fd, int force, int plain)
{
	int bytes = BUFFER;

	if (setsockopt(fd, SOL_SOCKET, force, &bytes, sizeof(bytes)) != 0)
		(void)setsockopt(fd, SOL_SOCKET, plain, &bytes, sizeof(bytes));
}

/* IPv6 sockets use IPv4's options for mapped IPv4 addresses. */
static void enable_ecn(int fd, int family)
{
	int on = 1, capable = LEND_ECN_CAPABLE;

	(void)setsockopt(fd, IPPROTO_IP, IP_TOS, &capable, sizeof(capable));
	(void)setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof(on));
	if (family == AF_INET)
		return;
	(void)setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &capable, sizeof(capable));
	(void)setsockopt(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, &on, sizeof(on));
}

uint32_t lend_udp_control(struct msghdr *msg, uint8_t *tos)
{
	int joined = 0;

	*tos = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
		/* IPv4's TOS is a byte, IPv6's an int: its first byte here. */
		if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO)
			memcpy(&joined, CMSG_DATA(c), sizeof(joined));
		else if (c->cmsg_type == IP_TOS || c->cmsg_type == IPV6_TCLASS)
			memcpy(tos, CMSG_DATA(c), 1);
	}
	return joined > 0 ? (uint32_t)joined : 0;
}

void lend_udp_control_add(struct msghdr *msg, int level, int type, int value, size_t len)
{
	struct cmsghdr *c =
	    (struct cmsghdr *)(void *)((char *)msg->msg_control + msg->msg_controllen);

	*c = (struct cmsghdr){.cmsg_len = CMSG_LEN(len), .cmsg_level = level, .cmsg_type = type};
	memcpy(CMSG_DATA(c), &value, len);
	msg->msg_controllen += CMSG_SPACE(len);
}

static bool send_with_priority(int fd)
{
	_Alignas(struct cmsghdr) char control[LEND_UDP_CONTROL] = {0};
	struct sockaddr_in self = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(self);
	struct msghdr msg = {.msg_name = &self, .msg_namelen = len, .msg_control = control};

	if (bind(fd, (void *)&self, len) != 0 || getsockname(fd, (void *)&self, &len) != 0)
		return false;
	lend_udp_control_add(&msg, SOL_SOCKET, SO_PRIORITY, 1, sizeof(int));
	return sendmsg(fd, &msg, MSG_DONTWAIT) == 0;
}

bool lend_udp_takes_priority(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool takes = fd >= 0 && send_with_priority(fd);

	if (fd >= 0)
		(void)close(fd);
	return takes;
}

static void set_options(int fd, int family)
{
	int off = 0, fragment = IP_PMTUDISC_DONT;

	enlarge_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF);
	enlarge_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF);
	enable_ecn(fd, family);
	/* If the route is narrower than expected, packets are fragmented instead of all lost. */
	if (family == AF_INET) {
		(void)setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &fragment, sizeof(fragment));
		return;
	}
	(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	(void)setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &fragment, sizeof(fragment));
}

static int open_socket(int family)
{
	int s = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (s < 0)
		return lend_fail(errno,
				 "udp: no socket: %s; raise ulimit -n or enable the protocol",
				 strerror(errno));
	set_options(s, family);
	return s;
}

static bool set_option(int fd, int option, int on)
{
	return setsockopt(fd, SOL_SOCKET, option, &on, sizeof(on)) == 0;
}

/* Lets sockets of the same user, and of no other, bind fd's port. Returns the option's value so
 * far, or -1. SO_REUSEADDR would admit every user. */
static int set_reuseport(int fd)
{
	int was = 0;
	socklen_t len = sizeof(was);

	if (fd < 0)
		return 0;
	if (getsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &was, &len) != 0 ||
	    !set_option(fd, SO_REUSEPORT, 1))
		return -1;
	return was;
}

static int open_bound(const struct sockaddr_storage *local, socklen_t len)
{
	int fd = open_socket(local->ss_family);

	if (fd < 0)
		return fd;
	if (set_reuseport(fd) == 0 && bind(fd, (const void *)local, len) == 0) {
		(void)set_option(fd, SO_REUSEPORT, 0);
		return fd;
	}
	(void)close(fd);
	return -EADDRINUSE;
}

int lend_udp_socket_second(int fd, int other)
{
	struct sockaddr_storage local;
	socklen_t len = sizeof(local);
	int was[2], second = -EADDRINUSE;

	if (getsockname(fd, (void *)&local, &len) != 0)
		return -EADDRINUSE;
	was[0] = set_reuseport(fd);
	was[1] = set_reuseport(other);
	if (was[0] >= 0 && was[1] >= 0)
		second = open_bound(&local, len);
	if (other >= 0)
		(void)set_option(other, SO_REUSEPORT, was[1] > 0);
	(void)set_option(fd, SO_REUSEPORT, was[0] > 0);
	return second;
}

bool lend_udp_socket_to_first(int fd)
{
	struct sock_filter first = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog program = {.len = 1, .filter = &first};

	return fd >= 0 &&
	       setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)) == 0;
}

int lend_udp_socket_twin(int fd, int line)
{
	int second = lend_udp_socket_second(fd, line);

	if (second < 0 || (set_option(fd, SO_REUSEPORT, 1) && set_option(second, SO_REUSEPORT, 1)))
		return second;
	(void)close(second);
	return -EADDRINUSE;
}

/* A socket that is disconnected loses a port that the kernel chose, but keeps a port that was
 * requested. So a second socket requests the port of the first and replaces it. Where that
 * fails, the first is kept. */
static bool ask_for_same_port(int *fd)
{
	int second = lend_udp_socket_second(*fd, -1);

	if (second < 0)
		return false;
	(void)close(*fd);
	*fd = second;
	return true;
}

int lend_udp_socket(const struct lend_io_config *config, struct lend_udp_socket *sock)
{
	struct sockaddr_storage local = {.ss_family = AF_INET}, peer;
	bool has_peer = config->peer != NULL && lend_addr_scheme(config->peer) == LEND_SCHEME_UDP;
	int err = 0, s;

	if (config->listen != NULL)
		err = lend_udp_lookup(config->listen, AF_UNSPEC, &local);
	else if (has_peer)
		err = lend_udp_lookup(config->peer, AF_UNSPEC, &peer);
	if (err != 0)
		return err;
	if (config->listen == NULL && has_peer)
		local.ss_family = peer.ss_family;
	s = open_socket(local.ss_family);
	if (s < 0)
		return s;
	if (bind(s, (const void *)&local, lend_udp_length(&local)) != 0) {
		err = errno;
		(void)close(s);
		return lend_fail(err, "%s: %s; choose another port or an address of this machine",
				 config->listen != NULL ? config->listen : "udp", strerror(err));
	}
	*sock = (struct lend_udp_socket){.family = local.ss_family};
	if (config->listen == NULL && has_peer)
		sock->keeps_port = ask_for_same_port(&s);
	sock->mtu = payload_max(config, &local, config->listen == NULL && has_peer ? &peer : NULL);
	sock->fd = s;
	return 0;
}
