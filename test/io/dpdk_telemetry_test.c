/* Goal: a telemetry command describes each endpoint once, in its own thread; it reports one that
 * does not poll; it survives a carrier that closes meanwhile. Method: carriers in this process with
 * users that check the thread; commands through EAL's socket. test/e2e/telemetry.py reads real
 * endpoints. Covers: src/io/dpdk/telemetry.c */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "io/conform.h"
#include "io/dpdk_fixture.h"
#include "sys/last_error.h"

/* One endpoint: a thread that polls its carriers. */
struct user {
	struct lend_io *io[2];
	uint32_t n;
	const char *name;
	pthread_t thread, self;
	_Atomic bool stop;
	_Atomic uint32_t asked;
	uint32_t first; /* number of the first session that was asked for */
	bool foreign;   /* described in another thread */
};

static void describe_user(void *arg, enum lend_io_topic topic, uint32_t from, uint32_t most,
			  struct lend_io_sink *sink)
{
	struct user *user = arg;

	user->foreign |= !pthread_equal(pthread_self(), user->self);
	user->first = from;
	atomic_fetch_add(&user->asked, 1);
	sink->text(sink, "name", user->name);
	if (topic != LEND_IO_SESSIONS)
		return;
	for (uint32_t i = 0; i < most; i++) {
		char text[16];

		snprintf(text, sizeof(text), "%u", from + i);
		sink->begin(sink, text);
		sink->number(sink, "rx", i);
		sink->end(sink);
	}
}

static void begin_test(void)
{
	dpdk_begin();
	setenv("RUNTIME_DIRECTORY", dpdk_folder, 1);
}

static void open_carrier(struct user *user)
{
	struct lend_io_config config = {
	    .listen = "dpdk:ring@127.0.0.1:0",
	    .eal = "--no-huge -m 192 --no-pci --no-shconf --telemetry --file-prefix t",
	    .describe = describe_user,
	    .user = user};

	cr_assert_eq(lend_io_open(&config, &user->io[user->n]), 0, "%s", lend_why_text());
	user->n++;
}

static void *poll_carriers(void *arg)
{
	struct user *user = arg;
	struct lend_in in[8];

	user->self = pthread_self();
	while (!atomic_load(&user->stop))
		for (uint32_t i = 0; i < user->n; i++) {
			(void)user->io[i]->ops->rx(user->io[i], in, 8);
			user->io[i]->ops->rx_done(user->io[i]);
			usleep(100);
		}
	return NULL;
}

static void start_polls(struct user *user)
{
	atomic_store(&user->stop, false);
	cr_assert_eq(pthread_create(&user->thread, NULL, poll_carriers, user), 0);
}

static void stop_polls(struct user *user)
{
	atomic_store(&user->stop, true);
	cr_assert_eq(pthread_join(user->thread, NULL), 0);
}

static void close_carriers(struct user *user)
{
	while (user->n > 0) {
		user->n--;
		user->io[user->n]->ops->close(user->io[user->n]);
	}
}

static int dial_eal(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	char greeting[1024];

	snprintf(at.sun_path, sizeof(at.sun_path), "%s/dpdk/t/dpdk_telemetry.v2", dpdk_folder);
	cr_assert_eq(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0, "%s", at.sun_path);
	cr_assert_gt(read(fd, greeting, sizeof(greeting)), 0);
	return fd;
}

static void ask_eal(int fd, const char *command, char reply[16 << 10])
{
	ssize_t n;

	cr_assert_eq(write(fd, command, strlen(command)), (ssize_t)strlen(command));
	n = read(fd, reply, (16 << 10) - 1);
	cr_assert_gt(n, 0);
	reply[n] = 0;
}

Test(dpdk_telemetry, commands, .init = begin_test, .fini = dpdk_end)
{
	struct user a = {.name = "a"}, b = {.name = "b"};
	char reply[16 << 10];
	int fd;

	if (dpdk_absent())
		cr_skip_test("%s", dpdk_absent());
	open_carrier(&a);
	open_carrier(&a); /* the endpoint is described once */
	open_carrier(&b);
	fd = dial_eal();
	start_polls(&a);
	start_polls(&b);
	ask_eal(fd, "/lend/endpoints", reply);
	cr_expect(strstr(reply, "{\"name\":\"a\"}") && strstr(reply, "{\"name\":\"b\"}"), "%s",
		  reply);
	cr_expect_eq(atomic_load(&a.asked) + atomic_load(&b.asked), 2);
	ask_eal(fd, "/lend/sessions,0,40", reply);
	cr_expect(strstr(reply, "\"40\":{\"rx\":0}") && strstr(reply, "\"55\":{\"rx\":15}"), "%s",
		  reply);
	cr_expect_eq(atomic_load(&a.asked) + atomic_load(&b.asked), 3);
	cr_expect_eq(a.first + b.first, 40);
	ask_eal(fd, "/lend/node,9", reply);
	cr_expect(strstr(reply, "{\"/lend/node\":{}}"), "%s", reply);
	stop_polls(&b);
	ask_eal(fd, "/lend/node", reply);
	cr_expect(strstr(reply, "{\"name\":\"a\"}") && strstr(reply, "does not poll"), "%s", reply);
	start_polls(&b); /* the request was taken back: it is not answered late */
	usleep(20000);
	cr_expect_eq(atomic_load(&b.asked), 1 + (b.first == 40));
	stop_polls(&a);
	stop_polls(&b);
	cr_expect_not(a.foreign || b.foreign, "described in another thread");
	close_carriers(&a);
	close_carriers(&b);
	close(fd);
}

static void *ask_often(void *arg)
{
	char reply[16 << 10];
	int fd = dial_eal();

	for (int i = 0; i < 200; i++) {
		ask_eal(fd, i & 1 ? "/lend/endpoints" : "/lend/sessions", reply);
		cr_expect_not(strstr(reply, "does not poll"), "waited for a closed one");
	}
	close(fd);
	atomic_fetch_add((_Atomic uint32_t *)arg, 1);
	return NULL;
}

Test(dpdk_telemetry, closing, .init = begin_test, .fini = dpdk_end)
{
	_Atomic uint32_t done = 0;
	struct user a = {.name = "a"}, b = {.name = "b"};
	pthread_t thread[2];
	uint32_t rounds = 0;

	if (dpdk_absent())
		cr_skip_test("%s", dpdk_absent());
	open_carrier(&a);
	start_polls(&a);
	for (int i = 0; i < 2; i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, ask_often, &done), 0);
	for (; atomic_load(&done) < 2; rounds++) {
		open_carrier(&b);
		start_polls(&b);
		usleep(500);
		stop_polls(&b);
		usleep(2000); /* a command waits now */
		close_carriers(&b);
	}
	for (int i = 0; i < 2; i++)
		cr_assert_eq(pthread_join(thread[i], NULL), 0);
	stop_polls(&a);
	cr_expect_gt(atomic_load(&a.asked), 0);
	cr_expect_gt(rounds, 1);
	cr_expect_not(a.foreign || b.foreign, "described in another thread");
	close_carriers(&a);
}
