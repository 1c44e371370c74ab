/* Goal: while an endpoint opens further sockets at its port, no other user can bind that port, and
 * a second server of the same user cannot either.
 * Method: a child with another user's id binds in a loop, with each option that shares a port,
 * while a thousand sockets are opened. Then a second server after each kind of socket.
 * Covers: src/io/udp/sock.c */
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "io/udp/sock.h"

enum { STRANGER = 65534, ROUNDS = 1000, TRIES = 1000 };

struct score {
	atomic_uint tries, won;
};

static struct lend_udp_socket open_server(void)
{
	struct lend_io_config config = {.listen = "udp:127.0.0.1:0"};
	struct lend_udp_socket sock;

	cr_assert_eq(lend_udp_socket(&config, &sock), 0);
	return sock;
}

static struct sockaddr_in address_of(int fd)
{
	struct sockaddr_in at;
	socklen_t len = sizeof(at);

	cr_assert_eq(getsockname(fd, (void *)&at, &len), 0);
	return at;
}

/* Binds once with these options; 0 or -errno. */
static int try_bind(const struct sockaddr_in *at, int address, int port)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc = 0;

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &address, sizeof(address));
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &port, sizeof(port));
	if (bind(fd, (const void *)at, sizeof(*at)) != 0)
		rc = -errno;
	(void)close(fd);
	return rc;
}

static _Noreturn void run_attacker(const struct sockaddr_in *at, struct score *score)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (setuid(STRANGER) != 0)
		_exit(1);
	for (unsigned i = 0;; i++) {
		if (try_bind(at, i & 1, i >> 1 & 1) == 0)
			atomic_fetch_add(&score->won, 1);
		atomic_fetch_add(&score->tries, 1);
	}
}

/* Opens and closes connected sockets until the attacker has made its attempts. */
static void open_many(int fd, struct score *score)
{
	for (unsigned i = 0; i < ROUNDS || atomic_load(&score->tries) < TRIES; i++) {
		int second = lend_udp_socket_second(fd, -1);

		cr_assert_geq(second, 0);
		(void)close(second);
	}
}

Test(udp_port, another_user__never_gets_it)
{
	struct score *score =
	    mmap(NULL, sizeof(*score), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct lend_udp_socket server = open_server();
	struct sockaddr_in at = address_of(server.fd);
	pid_t child;

	if (geteuid() != 0)
		cr_skip("needs root for a second user");
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0)
		run_attacker(&at, score);
	open_many(server.fd, score);
	(void)kill(child, SIGKILL);
	cr_assert_eq(waitpid(child, NULL, 0), child);
	cr_assert_eq(atomic_load(&score->won), 0, "%u of %u tries", atomic_load(&score->won),
		     atomic_load(&score->tries));
	(void)close(server.fd);
}

static void expect_taken(const struct sockaddr_in *at, bool grouped)
{
	struct lend_udp_socket second;
	char text[32];

	(void)snprintf(text, sizeof(text), "udp:127.0.0.1:%u", ntohs(at->sin_port));
	cr_assert_eq(lend_udp_socket(&(struct lend_io_config){.listen = text}, &second),
		     -EADDRINUSE);
	cr_assert_eq(try_bind(at, 0, 0), -EADDRINUSE);
	cr_assert_eq(try_bind(at, 1, 0), -EADDRINUSE);
	if (!grouped)
		cr_assert_eq(try_bind(at, 1, 1), -EADDRINUSE);
}

Test(udp_port, second_server__eaddrinuse)
{
	struct lend_udp_socket server = open_server();
	struct sockaddr_in at = address_of(server.fd);
	int line, twin, last;

	expect_taken(&at, false);
	line = lend_udp_socket_second(server.fd, -1);
	cr_assert_geq(line, 0);
	expect_taken(&at, false);
	twin = lend_udp_socket_twin(server.fd, line);
	cr_assert_geq(twin, 0);
	expect_taken(&at, true);
	(void)close(line);
	last = lend_udp_socket_second(server.fd, twin);
	cr_assert_geq(last, 0);
	expect_taken(&at, true);
	(void)close(last);
	(void)close(twin);
	(void)close(server.fd);
}

/* Exit status 0: a second socket was refused, and the attempt left nothing behind. */
static _Noreturn void open_as_stranger(int fd)
{
	int on = 1, free = dup(fd), after;
	socklen_t len = sizeof(on);

	if (setuid(STRANGER) != 0 || close(free) != 0)
		_exit(1);
	if (lend_udp_socket_second(fd, -1) != -EADDRINUSE)
		_exit(2);
	after = dup(fd);
	(void)getsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, &len);
	_exit(after != free ? 3 : on ? 4 : 0);
}

Test(udp_port, user_changed__eaddrinuse_and_nothing_left)
{
	struct lend_udp_socket server = open_server();
	int status;
	pid_t child;

	if (geteuid() != 0)
		cr_skip("needs root for a second user");
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0)
		open_as_stranger(server.fd);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
	(void)close(server.fd);
}

static int has_option(int fd)
{
	int on = -1;
	socklen_t len = sizeof(on);

	cr_assert_eq(getsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, &len), 0);
	return on;
}

Test(udp_port, beside__leaves_each_option_as_it_was)
{
	for (int was = 0; was < 4; was++) {
		int bit[2] = {was & 1, was >> 1}, fd = open_server().fd;
		int other = lend_udp_socket_second(fd, -1), third;

		cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &bit[0], sizeof(int)), 0);
		cr_assert_eq(setsockopt(other, SOL_SOCKET, SO_REUSEPORT, &bit[1], sizeof(int)), 0);
		third = lend_udp_socket_second(fd, other);
		cr_assert_geq(third, 0);
		cr_expect_eq(has_option(fd), bit[0], "first, case %d", was);
		cr_expect_eq(has_option(other), bit[1], "second, case %d", was);
		cr_expect_eq(has_option(third), 0, "new, case %d", was);
		(void)close(third);
		(void)close(other);
		(void)close(fd);
	}
}

/* Sends one datagram for each member of the group. The socket that gets it is the only readable
 * one. */
static void expect_member(int fd, uint32_t index, const int *socket)
{
	struct sock_filter code = BPF_STMT(BPF_RET | BPF_K, index);
	struct sock_fprog program = {.len = 1, .filter = &code};
	struct sockaddr_in at = address_of(fd);
	int from = open_server().fd;
	char byte = 0;

	cr_assert_eq(
	    setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)), 0);
	cr_assert_eq(sendto(from, &byte, 1, 0, (const void *)&at, sizeof(at)), 1);
	for (uint32_t i = 0; i < 3; i++)
		cr_assert_eq(recv(socket[i], &byte, 1, MSG_DONTWAIT), i == index ? 1 : -1);
	(void)close(from);
}

/* The urgent socket's index in the group depends on whether the connected socket is a member. */
Test(udp_port, twin__comes_after_connected_in_the_group)
{
	int fd = open_server().fd, line, on = 1;

	cr_assert_not(lend_udp_socket_to_first(fd));
	line = lend_udp_socket_second(fd, -1);
	cr_assert(lend_udp_socket_to_first(line));
	int member[3] = {fd, line, lend_udp_socket_twin(fd, line)};

	cr_assert_geq(member[2], 0);
	cr_assert_eq(setsockopt(line, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
	for (uint32_t i = 0; i < 3; i++)
		expect_member(fd, i, member);
	for (uint32_t i = 0; i < 3; i++)
		(void)close(member[i]);
}

Test(udp_port, client__keeps_its_port_alone)
{
	struct lend_udp_socket server = open_server(), client;
	struct sockaddr_in at = address_of(server.fd);
	char text[32];

	(void)snprintf(text, sizeof(text), "udp:127.0.0.1:%u", ntohs(at.sin_port));
	cr_assert_eq(lend_udp_socket(&(struct lend_io_config){.peer = text}, &client), 0);
	cr_assert(client.keeps_port);
	at = address_of(client.fd);
	cr_assert_eq(try_bind(&at, 1, 1), -EADDRINUSE);
	(void)close(client.fd);
	(void)close(server.fd);
}
