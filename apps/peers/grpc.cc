/* grpc - gRPC C++ as its guide recommends: blocking unary calls, asynchronous calls through
 * completion queues, and one bidirectional stream, blocking or asynchronous. C++, since that is
 * gRPC's public API.
 *
 * A lane is a kind of call and a carrier: unary-tcp, async-unix, talk-tcp, async-tls (gRPC's TLS,
 * over TCP), ... Asynchronous calls
 * and the stream of talk are served through a queue too, and both queues are polled unless both
 * ends sleep. The others are served by gRPC's own threads, which sleep. On lanes gateway-... and ...-native a Lend
 * endpoint serves the same client.
 * Layer: apps/peers. Threads: gRPC's, all of a process on its CPU. */
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <grpcpp/grpcpp.h>
#include <memory>
#include <string>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include "echo.grpc.pb.h"

#include "apps/peers/fifo.h"
#include "apps/peers/lend_end.h"
#include "apps/peers/peer.h"
#include "apps/peers/tls_cert.h"
#include "lend/metadata.h"
#include "lend/stream.h"

using grpc::ServerContext;
using grpc::Status;
using asking::Asking;
using asking::Bytes;

constexpr int KINDS = 16; /* patterns of requests; each is encoded once */
constexpr int NAP_US = 20000;

[[noreturn]] static void die(const char *what)
{
	std::fprintf(stderr, "grpc: %s; GRPC_VERBOSITY=debug says more\n", what);
	std::exit(1);
}

/* A process has one job, and its events are too many to compare names at each. */
static bool is_talk(const peer_job *job)
{
	static const bool talks = std::strstr(job->lane, "talk");

	return talks;
}

/* A Lend server that the client, under lend grpc-run, reaches without HTTP/2. */
static bool is_native(const peer_job *job)
{
	return std::strstr(job->lane, "native");
}

static bool is_gateway(const peer_job *job)
{
	return !std::strncmp(job->lane, "gateway", 7) || is_native(job);
}

// Both ends use completion queues, but for a gateway.
static bool is_async(const peer_job *job)
{
	static const bool queues = !std::strncmp(job->lane, "async", 5) || is_talk(job) ||
				   (is_gateway(job) && !std::strstr(job->lane, "unary"));

	return queues;
}

static bool is_stream(const peer_job *job)
{
	return !std::strncmp(job->lane, "stream", 6);
}

/* Applies the settings of gRPC's performance guide, and allows long messages. */
template <class Options> static void tune(Options set)
{
	set(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, -1);
	set(GRPC_ARG_HTTP2_BDP_PROBE, 0);
	set(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 16 << 20);
	set(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, (16 << 20) - 1);
}

static void answer(const peer_job *job, const Bytes &in, Bytes *out)
{
	std::string &data = *const_cast<std::string *>(&in.data());
	const iovec part = {data.data(), data.size()};
	char sum[PEER_SUM_LEN];

	peer_serve(job, &part, 1, peer_is_echo(job) ? nullptr : sum);
	if (peer_is_echo(job))
		out->set_data(in.data());
	else
		out->set_data(sum, sizeof(sum));
}

/* Served by gRPC's threads. */
class Blocking final : public Asking::Service
{
      public:
	explicit Blocking(const peer_job *job) : job_(job)
	{
	}

	Status Ask(ServerContext *, const Bytes *in, Bytes *out) override
	{
		answer(job_, *in, out);
		return Status::OK;
	}

	Status Talk(ServerContext *, grpc::ServerReaderWriter<Bytes, Bytes> *stream) override
	{
		Bytes in, out;

		while (stream->Read(&in)) {
			answer(job_, in, &out);
			stream->Write(out);
		}
		return Status::OK;
	}

      private:
	const peer_job *job_;
};

/* One call slot of the asynchronous server: waits for a request, answers it, then waits for the
 * next one. */
struct Served {
	std::unique_ptr<ServerContext> context;
	std::unique_ptr<grpc::ServerAsyncResponseWriter<Bytes>> writer;
	Bytes in, out;
	bool answered;
};

/* An end of the asynchronous stream: reads all the time, and writes one message after the other. */
template <class Stream> struct Talk {
	enum Tag : uintptr_t { OPENED = 1, READ, WRITTEN }; /* of the queue */
	std::unique_ptr<Stream> stream;
	std::deque<Bytes> out; /* wait for the one that is being written */
	bool writing = false;
	Bytes in;

	static void *tag(Tag which)
	{
		return reinterpret_cast<void *>(which);
	}

	void read()
	{
		stream->Read(&in, tag(READ));
	}

	void write(const Bytes &message)
	{
		if (writing)
			out.push_back(message);
		else
			stream->Write(message, tag(WRITTEN));
		writing = true;
	}

	void written()
	{
		writing = !out.empty();
		if (!writing)
			return;
		stream->Write(out.front(), tag(WRITTEN));
		out.pop_front();
	}
};

struct Server {
	const peer_job *job;
	ServerContext context; /* of the asynchronous stream */
	Talk<grpc::ServerAsyncReaderWriter<Bytes, Bytes>> talk;
	Blocking blocking;
	Asking::AsyncService async;
	std::unique_ptr<grpc::ServerCompletionQueue> queue;
	std::unique_ptr<grpc::Server> server;
	lend_ep *gateway = nullptr;
	std::vector<Served> served;

	explicit Server(const peer_job *j) : job(j), blocking(j), served(2 * j->window)
	{
	}

	void ask_for(Served *s)
	{
		s->context = std::make_unique<ServerContext>();
		s->writer = std::make_unique<grpc::ServerAsyncResponseWriter<Bytes>>(
		    s->context.get());
		s->answered = false;
		async.RequestAsk(s->context.get(), &s->in, s->writer.get(), queue.get(),
				 queue.get(), s);
	}
};

static bool is_unix(const peer_job *job)
{
	return std::strstr(job->lane, "-unix");
}

static bool is_tls(const peer_job *job)
{
	return std::strstr(job->lane, "-tls");
}

/* Returns the server's credentials. *cert: what the client trusts. */
static std::shared_ptr<grpc::ServerCredentials> make_credentials(const peer_job *job,
								 std::string *cert)
{
	char cert_text[PEER_ADDRESS_MAX], key_text[PEER_ADDRESS_MAX];
	grpc::SslServerCredentialsOptions options;

	if (!is_tls(job))
		return grpc::InsecureServerCredentials();
	peer_tls_make(cert_text, key_text);
	*cert = cert_text;
	options.pem_key_cert_pairs.push_back({key_text, cert_text});
	return grpc::SslServerCredentials(options);
}

/* Returns the encoded answer to an encoded request, of one buffer. */
static lend_buf *make_answer(Server *s, const lend_buf *bytes)
{
	lend_buf *reply;
	Bytes in, out;

	if (bytes->next || !in.ParseFromArray(bytes->data, static_cast<int>(bytes->len)))
		die("a malformed request, or one in pieces");
	answer(s->job, in, &out);
	reply = lend_buf_take(s->gateway, static_cast<uint32_t>(out.ByteSizeLong()));
	if (!reply)
		die(lend_why());
	out.SerializeWithCachedSizesToArray(static_cast<uint8_t *>(reply->data));
	reply->len = static_cast<uint32_t>(out.GetCachedSize());
	return reply;
}

static void answer_gateway(lend_request request, const lend_buf *bytes, void *arg)
{
	auto *s = static_cast<Server *>(arg);

	lend_reply(s->gateway, request, LEND_OK, make_answer(s, bytes));
}

/* The stream of the lane gateway-talk-tcp: each message is answered by one, while there is credit.
 */
struct GatewayTalk {
	lend_stream stream; // first
	Server *server;
	lend_buf *unsent; // an answer without credit
};

static void turn_talk(lend_stream *stream)
{
	auto *t = reinterpret_cast<GatewayTalk *>(stream);
	lend_ep *ep = t->server->gateway;
	lend_buf *in;
	int rc = 0;

	while (rc == 0) {
		if (t->unsent && lend_stream_write(ep, stream, t->unsent) < 0)
			return;
		t->unsent = nullptr;
		rc = lend_stream_read(ep, stream, &in);
		if (rc == 0) {
			t->unsent = make_answer(t->server, in);
			lend_buf_give(ep, in);
		}
	}
	if (rc == -ENODATA)
		lend_stream_end(ep, stream, LEND_OK, nullptr);
}

static void end_talk(lend_stream *stream)
{
	auto *t = reinterpret_cast<GatewayTalk *>(stream);

	lend_buf_give(t->server->gateway, t->unsent);
	delete t;
}

static void accept_talk(lend_request request, void *server)
{
	auto *t = new GatewayTalk{};

	t->server = static_cast<Server *>(server);
	t->stream.readable = t->stream.writable = turn_talk;
	t->stream.ended = end_talk;
	if (lend_stream_accept(t->server->gateway, request, &t->stream) < 0)
		die(lend_why());
}

/* The address at which lend grpc-run looks for the native peer of a port that no server has. */
static std::string native_address(const peer_job *job)
{
	sockaddr_in name = {};
	socklen_t len = sizeof(name);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	name.sin_family = AF_INET;
	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, reinterpret_cast<sockaddr *>(&name), len) < 0 ||
	    getsockname(fd, reinterpret_cast<sockaddr *>(&name), &len) < 0)
		die("no port");
	close(fd);
	return (std::strncmp(job->lane, "udp", 3) ? "shm:grpc-" : "udp:127.0.0.1:") +
	       std::to_string(ntohs(name.sin_port));
}

static void *open_gateway(Server *s, peer_pipe *door)
{
	const std::string listen = is_native(s->job) ? native_address(s->job) : "http2:127.0.0.1:0";
	char address[PEER_ADDRESS_MAX];

	s->gateway = peer_end_open(s->job, listen.c_str());
	if (lend_serve_name(s->gateway, "/asking.Asking/Ask", answer_gateway, s, 0) < 0 ||
	    lend_serve_stream_name(s->gateway, "/asking.Asking/Talk", accept_talk, s, 0) < 0 ||
	    lend_address(s->gateway, address, sizeof(address)) < 0)
		die(lend_why());
	std::string tcp = std::strchr(address, ':') + 1;
	if (is_native(s->job))
		tcp = "127.0.0.1:" + tcp.substr(tcp.find_last_of("-:") + 1);
	peer_send_text(door, tcp.c_str(), tcp.size() + 1);
	return s;
}

void *peer_server_open(const peer_job *job, peer_pipe *door)
{
	auto *s = new Server(job);

	if (is_gateway(job))
		return open_gateway(s, door);
	grpc::ServerBuilder builder;
	std::string address = "127.0.0.1:0", cert;
	int port = 0;

	if (is_unix(job))
		address = "unix-abstract:peer-grpc-" + std::to_string(getpid());
	tune([&](const char *name, int value) { builder.AddChannelArgument(name, value); });
	builder.AddListeningPort(address, make_credentials(job, &cert), &port);
	if (is_async(job)) {
		builder.RegisterService(&s->async);
		s->queue = builder.AddCompletionQueue();
	} else {
		builder.RegisterService(&s->blocking);
	}
	s->server = builder.BuildAndStart();
	if (!s->server)
		die("cannot listen");
	s->talk.stream =
	    std::make_unique<grpc::ServerAsyncReaderWriter<Bytes, Bytes>>(&s->context);
	if (is_talk(job))
		s->async.RequestTalk(&s->context, s->talk.stream.get(), s->queue.get(),
				     s->queue.get(), s->talk.tag(s->talk.OPENED));
	if (!is_unix(job))
		address = "127.0.0.1:" + std::to_string(port);
	for (Served &one : s->served)
		if (is_async(job) && !is_talk(job))
			s->ask_for(&one);
	peer_send_text(door, address.c_str(), address.size() + 1);
	if (is_tls(job))
		peer_send_text(door, cert.c_str(), cert.size() + 1);
	return s;
}

/* Takes an event of a queue: false: there is none. A wait lasts at most as long as a sleep. */
static bool next_event(const peer_job *job, grpc::CompletionQueue *queue, void **tag, bool *ok)
{
	gpr_timespec until = gpr_inf_past(GPR_CLOCK_MONOTONIC);

	if (job->sleep)
		until = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
				     gpr_time_from_micros(NAP_US, GPR_TIMESPAN));
	return queue->AsyncNext(tag, ok, until) == grpc::CompletionQueue::GOT_EVENT;
}

static void serve_talk(Server *s, void *tag)
{
	Bytes out;

	if (tag == s->talk.tag(s->talk.WRITTEN)) {
		s->talk.written();
		return;
	}
	if (tag == s->talk.tag(s->talk.READ)) {
		answer(s->job, s->talk.in, &out);
		s->talk.write(out);
	}
	s->talk.read();
}

/* Serves one event. A signal interrupts the sleep. */
void peer_server_turn(void *server)
{
	auto *s = static_cast<Server *>(server);
	void *tag;
	bool ok;

	if (s->gateway) {
		peer_end_turn(s->job, s->gateway);
		return;
	}
	if (!s->queue) {
		usleep(NAP_US);
		return;
	}
	if (!next_event(s->job, s->queue.get(), &tag, &ok))
		return;
	auto *one = static_cast<Served *>(tag);
	if (!ok)
		return;
	if (is_talk(s->job)) {
		serve_talk(s, tag);
		return;
	}
	if (one->answered) {
		s->ask_for(one);
		return;
	}
	answer(s->job, one->in, &one->out);
	one->answered = true;
	one->writer->Finish(one->out, Status::OK, one);
}

void peer_server_close(void *server)
{
	auto *s = static_cast<Server *>(server);
	void *tag;
	bool ok;

	if (s->gateway) {
		lend_close(s->gateway);
		delete s;
		return;
	}
	s->server->Shutdown(std::chrono::system_clock::now());
	if (s->queue) {
		s->queue->Shutdown();
		while (s->queue->Next(&tag, &ok))
			;
	}
	delete s;
}

/* One call of the asynchronous client. */
struct Asked {
	std::unique_ptr<grpc::ClientContext> context;
	std::unique_ptr<grpc::ClientAsyncResponseReader<Bytes>> reader;
	Bytes reply;
	Status status;
};

struct Client {
	const peer_job *job;
	std::unique_ptr<Asking::Stub> stub;
	grpc::CompletionQueue queue;
	std::vector<Asked> asked;
	std::vector<Bytes> kind;	 /* encoded messages of the patterns */
	std::vector<const void *> bytes; /* the patterns they were encoded from */
	std::vector<Bytes> written;	 /* messages of rewritten requests, by slot */
	peer_fifo fifo{};
	std::vector<const Bytes *> request; /* the message of each slot */
	grpc::ClientContext talk_context;
	std::unique_ptr<grpc::ClientReaderWriter<Bytes, Bytes>> talk;
	Talk<grpc::ClientAsyncReaderWriter<Bytes, Bytes>> async_talk;

	explicit Client(const peer_job *j) : job(j), asked(j->window), written(j->window),
					     request(j->window)
	{
	}
};

/* Requests are rewritten in the message that is sent. */
void *peer_client_place(void *client, unsigned slot)
{
	auto *c = static_cast<Client *>(client);
	std::string *data = c->written[slot].mutable_data();

	data->resize(c->job->request);
	return &(*data)[0];
}

/* Returns the message of a request. One that is not rewritten is from a cache, so that making it is
 * not measured. The cache key is the address: the bytes at an address of the pattern never change.
 */
static const Bytes *message_of(Client *c, unsigned slot, const void *bytes)
{
	if (c->job->rewrite)
		return &c->written[slot];
	for (size_t i = 0; i < c->bytes.size(); i++)
		if (c->bytes[i] == bytes)
			return &c->kind[i];
	c->bytes.push_back(bytes);
	c->kind.emplace_back();
	c->kind.back().set_data(bytes, c->job->request);
	return &c->kind.back();
}

/* Returns the client's credentials: it trusts the server's certificate. */
static std::shared_ptr<grpc::ChannelCredentials> trust_server(const peer_job *job, peer_pipe *door,
							      grpc::ChannelArguments *args)
{
	char cert[PEER_ADDRESS_MAX];

	if (!is_tls(job))
		return grpc::InsecureChannelCredentials();
	peer_receive_text(door, cert, sizeof(cert));
	args->SetSslTargetNameOverride(PEER_TLS_NAME);
	return grpc::SslCredentials({cert, "", ""});
}

void *peer_client_open(const peer_job *job, peer_pipe *door)
{
	auto *c = new Client(job);
	char address[PEER_ADDRESS_MAX];
	grpc::ChannelArguments args;

	c->kind.reserve(KINDS);
	peer_receive_text(door, address, sizeof(address));
	tune([&](const char *name, int value) { args.SetInt(name, value); });
	c->stub = Asking::NewStub(
	    grpc::CreateCustomChannel(address, trust_server(job, door, &args), args));
	if (is_stream(job))
		c->talk = c->stub->Talk(&c->talk_context);
	if (is_talk(job)) {
		void *tag;
		bool ok;

		c->async_talk.stream = c->stub->AsyncTalk(&c->talk_context, &c->queue,
							  c->async_talk.tag(c->async_talk.OPENED));
		if (!c->queue.Next(&tag, &ok) || !ok)
			die("the stream was not opened");
		c->async_talk.read();
	}
	return c;
}

int peer_client_start(void *client, unsigned slot, const void *bytes)
{
	auto *c = static_cast<Client *>(client);
	const Bytes *request = message_of(c, slot, bytes);

	if (!is_async(c->job)) {
		c->request[slot] = request;
		peer_fifo_push(&c->fifo, slot);
		if (is_stream(c->job) && !c->talk->Write(*request))
			die("the stream has ended");
		return 0;
	}
	if (is_talk(c->job)) {
		peer_fifo_push(&c->fifo, slot);
		c->async_talk.write(*request);
		return 0;
	}
	Asked &a = c->asked[slot];
	a.context = std::make_unique<grpc::ClientContext>();
	a.reader = c->stub->AsyncAsk(a.context.get(), *request, &c->queue);
	a.reader->Finish(&a.reply, &a.status, reinterpret_cast<void *>(uintptr_t{slot} + 1));
	return 0;
}

static void end(unsigned slot, const Bytes &reply)
{
	peer_end_at(slot, reply.data().data(), reply.data().size());
}

static void turn_async(Client *c)
{
	Bytes reply;
	void *tag;
	bool ok;

	if (!next_event(c->job, &c->queue, &tag, &ok))
		return;
	if (!ok)
		die("a call ended without an answer");
	if (is_talk(c->job)) {
		if (tag == c->async_talk.tag(c->async_talk.WRITTEN)) {
			c->async_talk.written();
			return;
		}
		reply.Swap(&c->async_talk.in);
		c->async_talk.read();
		end(peer_fifo_pop(&c->fifo), reply);
		return;
	}
	auto slot = static_cast<unsigned>(reinterpret_cast<uintptr_t>(tag) - 1);
	if (!c->asked[slot].status.ok())
		die(c->asked[slot].status.error_message().c_str());
	end(slot, c->asked[slot].reply);
}

void peer_client_turn(void *client)
{
	auto *c = static_cast<Client *>(client);
	Bytes reply;

	if (is_async(c->job)) {
		turn_async(c);
		return;
	}
	unsigned slot = peer_fifo_pop(&c->fifo);
	if (is_stream(c->job)) {
		if (!c->talk->Read(&reply))
			die("the stream has ended");
	} else {
		grpc::ClientContext context;
		Status status = c->stub->Ask(&context, *c->request[slot], &reply);

		if (!status.ok())
			die(status.error_message().c_str());
	}
	end(slot, reply);
}

void peer_client_close(void *client)
{
	auto *c = static_cast<Client *>(client);

	if (c->talk) {
		c->talk->WritesDone();
		c->talk->Finish();
	}
	if (c->async_talk.stream) {
		void *tag;
		bool ok;

		c->talk_context.TryCancel();
		c->queue.Shutdown();
		while (c->queue.Next(&tag, &ok))
			;
	}
	delete c;
}

static peer_lane lane_of(const char *name, unsigned window_max)
{
	return {name, 0, window_max, false, false, 1, false};
}

const struct peer peer_this = {
    "grpc",
    {lane_of("unary-unix", 1), lane_of("unary-tcp", 1), lane_of("async-unix", 0),
     lane_of("async-tcp", 0), lane_of("async-tls", 0), lane_of("talk-tls", 0), lane_of("stream-unix", 0), lane_of("stream-tcp", 0),
     lane_of("talk-unix", 0), lane_of("talk-tcp", 0), lane_of("gateway-tcp", 0),
     lane_of("gateway-talk-tcp", 0), lane_of("shm-native", 0), lane_of("udp-native", 0),
     lane_of("shm-native-unary", 1), lane_of("udp-native-unary", 1), lane_of("shm-native-talk", 0),
     lane_of("udp-native-talk", 0)},
    true};
