/* Goal: an endpoint runs the function of each watched descriptor that is ready, in its own wait,
 * whether it polls or sleeps, and no function of a watch that was ended. Method: pipes, sockets and
 * timers of the test, next to calls. Covers: src/rpc/descriptors.c, src/rpc/sleep.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e/rpc_server.h"

/* A watched end of a pair of sockets. */
struct line {
	struct lend_fd_watch watch; /* must be the first member */
	int far;
	struct lend_ep *ep;
	struct line *other; /* ended by ready, or NULL */
	unsigned n, events; /* times that ready ran, and the last events */
	bool drains;
};

static void note_ready(struct lend_fd_watch *watch, unsigned events)
{
	struct line *line = (struct line *)watch;
	char byte;

	line->n++;
	line->events = events;
	if (line->drains)
		cr_assert_eq(read(watch->fd, &byte, 1), 1);
	if (line->other)
		cr_assert_eq(lend_watch_fd(line->ep, &line->other->watch, 0), 0);
}

static void line_open(struct line *line, struct lend_ep *ep)
{
	int fd[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	*line = (struct line){
	    .watch = {.ready = note_ready, .fd = fd[0]}, .far = fd[1], .ep = ep, .drains = true};
}

static void line_close(struct line *line)
{
	cr_assert_eq(lend_watch_fd(line->ep, &line->watch, 0), 0);
	close(line->watch.fd);
	close(line->far);
}

static struct lend_ep *open_client(void)
{
	struct lend_ep *ep;

	cr_assert_eq(lend_open(NULL, &ep), 0);
	return ep;
}

static void write_byte(const struct line *line)
{
	cr_assert_eq(write(line->far, "x", 1), 1);
}

/* Runs turns for longer than the endpoint takes to look at its descriptors. */
static void turn_often(struct lend_ep *ep)
{
	lend_ns until = lend_now(ep) + 200000;

	while (lend_now(ep) < until)
		cr_assert_geq(lend_poll(ep), 0);
}

Test(rpc_watch_fd, ready_again_until_it_was_read)
{
	struct lend_ep *ep = open_client();
	struct line line;

	line_open(&line, ep);
	cr_assert_eq(lend_watch_fd(ep, &line.watch, LEND_FD_READ), 0);
	turn_often(ep);
	cr_assert_eq(line.n, 0);
	for (unsigned i = 1; i <= 100; i++) {
		write_byte(&line);
		cr_assert_eq(lend_wait(ep, LEND_NEVER), 1);
		cr_assert_eq(line.n, i);
		cr_assert_eq(line.events, LEND_FD_READ);
	}
	turn_often(ep);
	cr_assert_eq(line.n, 100);
	line.drains = false;
	write_byte(&line);
	for (unsigned i = 101; i <= 110; i++) {
		cr_assert_eq(lend_wait(ep, LEND_NEVER), 1);
		cr_assert_eq(line.n, i);
	}
	line_close(&line);
	lend_close(ep);
}

/* A timer of the test rings while the endpoint sleeps. */
Test(rpc_watch_fd, ends_a_sleep)
{
	const struct itimerspec soon = {.it_value = {.tv_nsec = 30 * 1000000}};
	struct lend_stats before, after;
	struct lend_ep *ep = open_client();
	struct line line = {.watch = {.ready = note_ready}, .ep = ep};

	line.watch.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	cr_assert_eq(lend_watch_fd(ep, &line.watch, LEND_FD_READ), 0);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(timerfd_settime(line.watch.fd, 0, &soon, NULL), 0);
		lend_stats_get(ep, &before);
		cr_assert_eq(lend_wait(ep, LEND_NEVER), 1);
		lend_stats_get(ep, &after);
		cr_assert_gt(after.sleeps, before.sleeps);
		cr_assert_leq(after.sleeps, before.sleeps + 3);
	}
	cr_assert_eq(timerfd_settime(line.watch.fd, 0, &soon, NULL), 0);
	while (!lend_prepare_sleep(ep))
		cr_assert_geq(lend_poll(ep), 0);
	cr_assert_eq(poll(&(struct pollfd){.fd = lend_fd(ep), .events = POLLIN}, 1, 10000), 1);
	cr_assert_eq(lend_poll(ep), 1, "lend_fd() was readable for the descriptor");
	cr_assert_eq(line.n, 4);
	cr_assert_eq(lend_watch_fd(ep, &line.watch, 0), 0);
	close(line.watch.fd);
	lend_close(ep);
}

Test(rpc_watch_fd, each_event_that_is_asked_for)
{
	static const struct {
		unsigned asked;
		bool written, hung_up;
		unsigned events; /* 0: ready does not run */
	} row[] = {
	    {LEND_FD_READ, false, false, 0},
	    {LEND_FD_WRITE, false, false, LEND_FD_WRITE},
	    {LEND_FD_WRITE, true, false, LEND_FD_WRITE},
	    {LEND_FD_READ | LEND_FD_WRITE, false, false, LEND_FD_WRITE},
	    {LEND_FD_READ | LEND_FD_WRITE, true, false, LEND_FD_READ | LEND_FD_WRITE},
	    {LEND_FD_READ, false, true, LEND_FD_READ},
	    {LEND_FD_WRITE, false, true, LEND_FD_WRITE},
	};
	struct lend_ep *ep = open_client();
	struct line line;

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		line_open(&line, ep);
		line.drains = false;
		cr_assert_eq(lend_watch_fd(ep, &line.watch, LEND_FD_READ | LEND_FD_WRITE), 0);
		cr_assert_eq(lend_watch_fd(ep, &line.watch, row[i].asked), 0);
		if (row[i].written)
			write_byte(&line);
		if (row[i].hung_up)
			cr_assert_eq(shutdown(line.far, SHUT_RDWR), 0);
		turn_often(ep);
		cr_assert_eq(line.events, row[i].events, "row %zu: %u", i, line.events);
		line_close(&line);
	}
	lend_close(ep);
}

/* The system reports the end of a pipe as a hang-up, without the event that was asked for. */
Test(rpc_watch_fd, the_end_of_a_pipe)
{
	struct lend_ep *ep = open_client();
	struct line line = {.watch = {.ready = note_ready}, .ep = ep};
	int fd[2];

	cr_assert_eq(pipe(fd), 0);
	line.watch.fd = fd[0];
	line.far = fd[1];
	cr_assert_eq(lend_watch_fd(ep, &line.watch, LEND_FD_READ), 0);
	close(line.far);
	cr_assert_eq(lend_wait(ep, LEND_NEVER), 1);
	cr_assert_eq(line.events, LEND_FD_READ);
	cr_assert_eq(lend_watch_fd(ep, &line.watch, 0), 0);
	close(line.watch.fd);
	lend_close(ep);
}

/* Both descriptors are ready in one look: the function that runs first ends the other's watch. */
Test(rpc_watch_fd, an_ended_watch_does_not_run)
{
	struct lend_ep *ep = open_client();
	struct line one, two;

	line_open(&one, ep);
	line_open(&two, ep);
	one.other = &two;
	two.other = &one;
	for (unsigned i = 1; i <= 20; i++) {
		cr_assert_eq(lend_watch_fd(ep, &one.watch, LEND_FD_READ), 0);
		cr_assert_eq(lend_watch_fd(ep, &two.watch, LEND_FD_READ), 0);
		write_byte(&one);
		write_byte(&two);
		turn_often(ep);
		cr_assert_eq(one.n + two.n, 2 * i - 1, "round %u: %u and %u", i, one.n, two.n);
		/* The other one was not read: it is, once it is watched alone. */
		one.other = two.other = NULL;
		cr_assert_eq(lend_watch_fd(ep, &one.watch, LEND_FD_READ), 0);
		cr_assert_eq(lend_watch_fd(ep, &two.watch, LEND_FD_READ), 0);
		turn_often(ep);
		cr_assert_eq(one.n + two.n, 2 * i);
		one.other = &two;
		two.other = &one;
	}
	line_close(&one);
	line_close(&two);
	lend_close(ep);
}

/* More descriptors than one look returns, next to calls that a descriptor's function starts. */
struct caller {
	struct line line; /* must be the first member */
	struct ask ask;
	lend_session session;
};

static void call_echo(struct lend_fd_watch *watch, unsigned events)
{
	struct caller *c = (struct caller *)watch;

	note_ready(watch, events);
	c->ask.call = (struct lend_call){.method = ECHO, .done = ask_done};
	c->ask.call.request = ask_bytes(c->line.ep, 100, (uint32_t)watch->fd);
	cr_assert_eq(lend_call_start(c->line.ep, c->session, &c->ask.call), 0);
}

Test(rpc_watch_fd, many_that_start_calls)
{
	enum { MANY = 50 };
	struct caller caller[MANY];
	struct server server;
	lend_session session;
	struct lend_ep *ep;

	server_start(&server, "shm");
	ep = client_of(server.address, &session);
	for (int i = 0; i < MANY; i++) {
		line_open(&caller[i].line, ep);
		caller[i].line.watch.ready = call_echo;
		caller[i].session = session;
		caller[i].ask.done = false;
		cr_assert_eq(lend_watch_fd(ep, &caller[i].line.watch, LEND_FD_READ), 0);
		write_byte(&caller[i].line);
	}
	for (int i = 0; i < MANY; i++) {
		while (!caller[i].ask.done)
			cr_assert_geq(lend_wait(ep, LEND_NEVER), 0);
		cr_assert_eq(caller[i].ask.call.status, LEND_OK);
		cr_assert_eq(caller[i].line.n, 1);
		ask_give(ep, &caller[i].ask);
		line_close(&caller[i].line);
	}
	lend_close(ep);
	server_stop(&server);
}

Test(rpc_watch_fd, refusals)
{
	struct lend_ep *ep = open_client();
	struct line line;
	struct lend_fd_watch second, file = {.ready = note_ready};
	int status;
	pid_t child;

	line_open(&line, ep);
	second = line.watch;
	file.fd = open("/proc/self/exe", O_RDONLY);
	cr_assert_eq(lend_watch_fd(ep, &line.watch, 0), 0);
	cr_assert_eq(lend_watch_fd(ep, &line.watch, 4), -EINVAL);
	cr_assert_eq(lend_watch_fd(ep, &(struct lend_fd_watch){.fd = 1}, LEND_FD_READ), -EINVAL);
	cr_assert_eq(lend_watch_fd(ep, &file, LEND_FD_READ), -EPERM);
	cr_assert_eq(file.events, 0);
	close(file.fd);
	cr_assert_eq(lend_watch_fd(ep, &file, LEND_FD_READ), -EBADF);
	cr_assert_eq(lend_watch_fd(ep, &line.watch, LEND_FD_READ), 0);
	cr_assert_eq(lend_watch_fd(ep, &second, LEND_FD_READ), -EEXIST);
	child = fork();
	if (child == 0)
		_exit(lend_watch_fd(ep, &line.watch, LEND_FD_WRITE) != -EPERM);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
	write_byte(&line);
	cr_assert_eq(lend_wait(ep, LEND_NEVER), 1);
	cr_assert_eq(line.events, LEND_FD_READ);
	close(line.watch.fd); /* against the rule, and harmless: the watch is ended afterwards */
	cr_assert_eq(lend_watch_fd(ep, &line.watch, 0), 0);
	turn_often(ep);
	cr_assert_eq(line.n, 1);
	close(line.far);
	lend_close(ep);
}
