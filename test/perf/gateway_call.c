/* gateway_call - the cost of a stock gRPC client's call to an endpoint over HTTP/2, in one thread.
 * perf_gateway_call [-s BYTES] [-w WINDOW] [-n CALLS]
 * Prints the endpoint's cycles per call; `count.sh` has callgrind count instructions. The client is
 * a socket and frames written by hand: its share is small. It sends the headers of gRPC's C++
 * client, from its second request on by their numbers in the dynamic table, and reads frame heads.
 * Threads: one. */
#include <arpa/inet.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <x86intrin.h>

#include <lend/metadata.h>
#include <lend/rpc.h>

enum {
	WINDOW_MAX = 100,
	SIZE_MAX_BYTES = 8192,
	FRAME = 9,
	PREFIX = 5,
	DATA = 0,
	HEADERS = 1,
	SETTINGS = 4,
	WINDOW_UPDATE = 8,
	END_STREAM = 1,
	END_HEADERS = 4,
	IN_MAX = 1 << 20
};

struct bench {
	struct lend_ep *server;
	int fd;
	uint32_t size, window, stream; /* bytes of a message, calls in flight, the last stream */
	uint64_t left, open;           /* calls to start, and those without an answer */
	uint8_t in[IN_MAX], out[WINDOW_MAX * (SIZE_MAX_BYTES + 1024)];
	size_t in_len, out_len;
	uint64_t unread; /* bytes of DATA since the last WINDOW_UPDATE */
};

static struct bench bench = {.size = 64, .window = 64};

static void fail_bench(const char *what)
{
	fprintf(stderr, "perf_gateway_call: %s: %s\n", what, lend_why());
	exit(1);
}

static void serve_echo(lend_request request, const struct lend_buf *in, void *arg)
{
	(void)arg;
	if (in->len != bench.size)
		fail_bench("a request of another length");
	lend_reply_copy(bench.server, request, LEND_OK, in->data, in->len);
}

static void put_bytes(const void *bytes, size_t len)
{
	memcpy(bench.out + bench.out_len, bytes, len);
	bench.out_len += len;
}

static void put_frame(uint8_t type, uint8_t flags, uint32_t stream, uint32_t len)
{
	put_bytes((uint8_t[FRAME]){(uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len, type,
				   flags, (uint8_t)(stream >> 24), (uint8_t)(stream >> 16),
				   (uint8_t)(stream >> 8), (uint8_t)stream},
		  FRAME);
}

static size_t add_literal(uint8_t *block, size_t at, const char *name, const char *value)
{
	size_t name_len = strlen(name), len = strlen(value);

	block[at++] = 0x40;
	block[at++] = (uint8_t)name_len;
	memcpy(block + at, name, name_len);
	at += name_len;
	block[at++] = (uint8_t)len;
	memcpy(block + at, value, len);
	return at + len;
}

/* Sends the headers of a request: numbers 62 and up are those of the first one, the last first. */
static void put_headers(uint32_t stream)
{
	static const uint8_t indexed[] = {0x83,      0x86,      0x80 | 68, 0x80 | 67, 0x80 | 66,
					  0x80 | 65, 0x80 | 64, 0x80 | 63, 0x80 | 62};
	uint8_t block[512] = {0x83, 0x86}; /* :method: POST, :scheme: http */
	size_t n = 2;

	if (stream > 1) {
		put_frame(HEADERS, END_HEADERS, stream, sizeof(indexed));
		put_bytes(indexed, sizeof(indexed));
		return;
	}
	n = add_literal(block, n, ":path", "/asking.Asking/Ask");
	n = add_literal(block, n, ":authority", "127.0.0.1:50051");
	n = add_literal(block, n, "te", "trailers");
	n = add_literal(block, n, "content-type", "application/grpc");
	n = add_literal(block, n, "user-agent", "grpc-c++/1.51.1 grpc-c/29.0.0 (linux; chttp2)");
	n = add_literal(block, n, "grpc-accept-encoding", "identity, deflate, gzip");
	n = add_literal(block, n, "grpc-timeout", "10S");
	put_frame(HEADERS, END_HEADERS, stream, (uint32_t)n);
	put_bytes(block, n);
}

static void start_call(void)
{
	uint8_t prefix[PREFIX] = {0, 0, 0, (uint8_t)(bench.size >> 8), (uint8_t)bench.size};

	bench.left--;
	bench.open++;
	bench.stream += bench.stream ? 2 : 1;
	put_headers(bench.stream);
	put_frame(DATA, END_STREAM, bench.stream, PREFIX + bench.size);
	put_bytes(prefix, PREFIX);
	memset(bench.out + bench.out_len, 0x5a, bench.size);
	bench.out_len += bench.size;
}

static void read_frame(const uint8_t *frame, uint32_t len)
{
	if (frame[3] == DATA)
		bench.unread += len;
	if (frame[3] == SETTINGS && !frame[4])
		put_frame(SETTINGS, 1, 0, 0);
	if (frame[3] != HEADERS || !(frame[4] & END_STREAM))
		return;
	bench.open--;
	if (bench.left)
		start_call();
}

static void read_answers(void)
{
	ssize_t n = recv(bench.fd, bench.in + bench.in_len, IN_MAX - bench.in_len, MSG_DONTWAIT);
	size_t at = 0;

	if (n == 0)
		fail_bench("the server ended the connection");
	bench.in_len += n > 0 ? (size_t)n : 0;
	while (bench.in_len - at >= FRAME) {
		const uint8_t *frame = bench.in + at;
		uint32_t len = (uint32_t)frame[0] << 16 | (uint32_t)frame[1] << 8 | frame[2];

		if (bench.in_len - at < FRAME + len)
			break;
		read_frame(frame, len);
		at += FRAME + len;
	}
	memmove(bench.in, bench.in + at, bench.in_len - at);
	bench.in_len -= at;
	if (bench.unread < 1 << 15)
		return;
	put_frame(WINDOW_UPDATE, 0, 0, 4);
	put_bytes((uint8_t[4]){0, (uint8_t)(bench.unread >> 16), (uint8_t)(bench.unread >> 8),
			       (uint8_t)bench.unread},
		  4);
	bench.unread = 0;
}

static void write_requests(void)
{
	if (bench.out_len && send(bench.fd, bench.out, bench.out_len, 0) != (ssize_t)bench.out_len)
		fail_bench("send");
	bench.out_len = 0;
}

/* Returns the cycles of the endpoint's turns. */
static uint64_t run_calls(uint64_t calls)
{
	uint64_t cycles = 0;

	bench.left = calls;
	while (bench.left && bench.open < bench.window)
		start_call();
	while (bench.open) {
		uint64_t begin;

		write_requests();
		begin = __rdtsc();
		lend_poll(bench.server);
		cycles += __rdtsc() - begin;
		read_answers();
	}
	return cycles;
}

static void open_ends(void)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	char address[256];

	snprintf(address, sizeof(address), "shm:gateway-%d,http2:127.0.0.1:0", (int)getpid());
	config.listen = address;
	if (lend_open(&config, &bench.server) < 0 ||
	    lend_serve_name(bench.server, "/asking.Asking/Ask", serve_echo, NULL, 0) < 0 ||
	    lend_address(bench.server, address, sizeof(address)) < 0)
		fail_bench("open");
	at.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
	bench.fd = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(bench.fd, (struct sockaddr *)&at, sizeof(at)) < 0)
		fail_bench("connect");
	put_bytes("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
	put_frame(SETTINGS, 0, 0, 0);
}

int main(int argc, char **argv)
{
	uint64_t calls = 100000;
	int option;

	while ((option = getopt(argc, argv, "s:w:n:")) != -1) {
		if (option == 's')
			bench.size = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'w')
			bench.window = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'n')
			calls = strtoull(optarg, NULL, 10);
	}
	if (optind < argc || bench.window < 1 || bench.window > WINDOW_MAX || bench.size < 1 ||
	    bench.size > SIZE_MAX_BYTES || calls < 1) {
		fprintf(stderr, "usage: perf_gateway_call [-s BYTES 1..8192] [-w WINDOW 1..100] "
				"[-n CALLS]\n");
		return 2;
	}
	open_ends();
	(void)run_calls(1000);
	printf("%.1f cycles per call, %u B there and back, %u in flight\n",
	       (double)run_calls(calls) / (double)calls, bench.size, bench.window);
	close(bench.fd);
	lend_close(bench.server);
	return 0;
}
