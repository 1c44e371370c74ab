/* social_grpc - lend social with gRPC C++ under its services: the same processes, handlers, stores
 * and protobuf-c bytes, but each call goes through gRPC's generic asynchronous API over a unix
 * socket. `peer-social-grpc` takes the options of lend social, by value only.
 *
 * gRPC's events come from a thread that waits at the completion queue, and run in the endpoint's
 * thread, which sleeps at one eventfd for all of them.
 * Layer: apps/peers. Threads: the endpoint's; Events' own; gRPC's. */
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <memory>
#include <mutex>
#include <string>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>
#include <vector>

extern "C" {
#include "apps/social/role_address.h"
#include "apps/social/social.h"
#include "lend/alloc.h"
int social_main(int argc, char **argv, const struct social_transport *transport);
}

using grpc::ByteBuffer;

constexpr std::chrono::seconds TIMEOUT(5); /* timeout of a call, as over Lend */

/* Something that a completion queue reports. */
struct Event {
	virtual void run(bool ok) = 0; /* in the endpoint's thread */
	virtual ~Event() = default;
};

/* Hands the events of the completion queue to the endpoint's thread. */
struct Events {
	std::unique_ptr<grpc::ServerCompletionQueue> of_server;
	grpc::CompletionQueue own, *queue = &own;
	std::mutex lock;
	std::vector<std::pair<Event *, bool>> ready;
	lend_fd_watch watch = {};

	void wait()
	{
		void *tag;
		bool ok;

		while (queue->Next(&tag, &ok)) {
			std::lock_guard<std::mutex> guard(lock);

			if (ready.empty())
				(void)eventfd_write(watch.fd, 1);
			ready.emplace_back(static_cast<Event *>(tag), ok);
		}
	}

	void run()
	{
		std::vector<std::pair<Event *, bool>> now;
		eventfd_t n;

		(void)eventfd_read(watch.fd, &n);
		{
			std::lock_guard<std::mutex> guard(lock);
			now.swap(ready);
		}
		for (auto &[event, ok] : now)
			event->run(ok);
	}

	void start();
};
static Events &events = *new Events; /* never destroyed: threads use it until the process ends */

void Events::start()
{
	if (watch.ready)
		return;
	watch.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	watch.ready = [](lend_fd_watch *, unsigned) { events.run(); };
	if (lend_watch_fd(social.ep, &watch, LEND_FD_READ) < 0) {
		std::fprintf(stderr, "social_grpc: %s\n", lend_why());
		std::_Exit(1);
	}
	std::thread([this] { wait(); }).detach();
}

static ByteBuffer pack(const ProtobufCMessage *message)
{
	grpc::Slice bytes(protobuf_c_message_get_packed_size(message));

	protobuf_c_message_pack(message, const_cast<uint8_t *>(bytes.begin()));
	return ByteBuffer(&bytes, 1);
}

static ProtobufCMessage *unpack(const ProtobufCMessageDescriptor *type, const ByteBuffer &bytes)
{
	grpc::Slice slice;

	return bytes.TrySingleSlice(&slice).ok() || bytes.DumpToSingleSlice(&slice).ok()
		   ? protobuf_c_message_unpack(type, nullptr, slice.size(), slice.begin())
		   : nullptr;
}

/* Status of the call to a role, while its closure runs. */
static struct {
	lend_status status;
	std::string why;
} last[SOCIAL_ROLES];

static std::string method_name(social_role role, unsigned method)
{
	const ProtobufCServiceDescriptor *d = social_descriptor(role);

	return std::string("/") + d->name + "/" + d->methods[method].name;
}

/* A call. Its reply goes to a closure as a message, or to another request as it is. */
struct Call : Event {
	grpc::ClientContext context;
	ByteBuffer reply;
	grpc::Status status;
	std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
	social_role role;
	const ProtobufCMessageDescriptor *type = nullptr;
	ProtobufCClosure closure = nullptr;
	void *data = nullptr; /* the closure's data; without one: the request to answer */

	void start(unsigned method, const ProtobufCMessage *input);
	void run(bool ok) override;
};

/* A request that is being served. */
struct Served : Event {
	grpc::GenericServerContext context;
	grpc::GenericServerAsyncReaderWriter stream{&context};
	ByteBuffer bytes;
	ProtobufCMessage *input = nullptr;
	enum { NEW, READING, RUNNING, ENDED } state = NEW;

	void run(bool ok) override;
	void serve();
	void answer(const ByteBuffer &reply)
	{
		state = ENDED;
		stream.WriteAndFinish(reply, grpc::WriteOptions(), grpc::Status::OK, this);
	}
	void fail(lend_status status, const char *why)
	{
		state = ENDED;
		stream.Finish(grpc::Status(static_cast<grpc::StatusCode>(status), why), this);
	}
	~Served() override
	{
		if (input)
			protobuf_c_message_free_unpacked(input, nullptr);
	}
};

static std::unique_ptr<grpc::GenericStub> stubs[SOCIAL_ROLES];

/* Returns the stub of a role, or null: its process has not started. */
static grpc::GenericStub *stub_of(social_role role)
{
	char address[SOCIAL_ADDRESS_MAX];
	std::string name = std::string("grpc-") + social_role_names[role];

	if (!stubs[role] && social_address_read(social.dir, name.c_str(), address))
		stubs[role] = std::make_unique<grpc::GenericStub>(
		    grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
	events.start();
	return stubs[role].get();
}

void Call::start(unsigned method, const ProtobufCMessage *input)
{
	context.set_deadline(std::chrono::system_clock::now() + TIMEOUT);
	reader = stubs[role]->PrepareUnaryCall(&context, method_name(role, method), pack(input),
					       events.queue);
	reader->StartCall();
	reader->Finish(&reply, &status, this);
}

void Call::run(bool)
{
	ProtobufCMessage *message = nullptr;

	last[role].status = static_cast<lend_status>(status.error_code());
	last[role].why = status.error_message();
	if (!closure && status.ok()) {
		static_cast<Served *>(data)->answer(reply);
	} else if (!closure) {
		static_cast<Served *>(data)->fail(last[role].status, last[role].why.c_str());
	} else {
		message = status.ok() ? unpack(type, reply) : nullptr;
		closure(message, data);
	}
	if (message)
		protobuf_c_message_free_unpacked(message, nullptr);
	delete this;
}

struct Client {
	ProtobufCService base; /* first */
	social_role role;
};

static void invoke(ProtobufCService *service, unsigned method, const ProtobufCMessage *input,
		   ProtobufCClosure closure, void *data)
{
	Call *call = new Call;

	call->role = reinterpret_cast<Client *>(service)->role;
	call->type = service->descriptor->methods[method].output;
	call->closure = closure;
	call->data = data;
	call->start(method, input);
}

static ProtobufCService *client_of(social_role role, void *)
{
	static Client clients[SOCIAL_ROLES];
	Client *client = &clients[role];

	if (!stub_of(role))
		return nullptr;
	client->base.descriptor = social_descriptor(role);
	client->base.invoke = invoke;
	client->role = role;
	return &client->base;
}

static const char *status_of(social_role role, lend_status *status)
{
	*status = stubs[role] ? last[role].status : LEND_UNAVAILABLE;
	return last[role].why.c_str();
}

static grpc::AsyncGenericService &generic = *new grpc::AsyncGenericService;
static grpc::Server *server;
static std::vector<ProtobufCService *> services;

static void expect_request()
{
	Served *next = new Served;

	generic.RequestCall(&next->context, &next->stream, events.queue, events.of_server.get(), next);
}

/* Returns the service of "/package.Service/Method", and the method's index. */
static ProtobufCService *find_method(const std::string &name, unsigned *method)
{
	for (ProtobufCService *service : services) {
		const ProtobufCServiceDescriptor *d = service->descriptor;

		for (*method = 0; *method < d->n_methods; ++*method)
			if (name == std::string("/") + d->name + "/" + d->methods[*method].name)
				return service;
	}
	return nullptr;
}

void Served::serve()
{
	unsigned method = 0;
	ProtobufCService *service = find_method(context.method(), &method);

	input = service ? unpack(service->descriptor->methods[method].input, bytes) : nullptr;
	state = RUNNING;
	if (!input) {
		fail(service ? LEND_INVALID_ARGUMENT : LEND_UNIMPLEMENTED, "no such method");
		return;
	}
	service->invoke(
	    service, method, input,
	    [](const ProtobufCMessage *reply, void *request) {
		    static_cast<Served *>(request)->answer(pack(reply));
	    },
	    this);
}

void Served::run(bool ok)
{
	if (state == NEW && ok) {
		expect_request();
		state = READING;
		stream.Read(&bytes, this);
	} else if (state == READING && ok) {
		serve();
	} else {
		delete this;
	}
}

/* Starts the server with the first service, before any call is made. */
static int serve(ProtobufCService *service)
{
	std::string path = std::string(social.dir) + "/grpc-" + std::to_string(getpid()) + ".sock";
	social_role role = SOCIAL_UNIQUE_ID;

	services.push_back(service);
	if (!server) {
		grpc::ServerBuilder builder;

		builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials());
		builder.RegisterAsyncGenericService(&generic);
		events.of_server = builder.AddCompletionQueue();
		events.queue = events.of_server.get();
		server = builder.BuildAndStart().release();
		if (!server)
			return -1;
		events.start();
		expect_request();
	}
	while (social_descriptor(role) != service->descriptor)
		role = static_cast<social_role>(role + 1);
	return social_address_write(social.dir, (std::string("grpc-") + social_role_names[role]).c_str(),
				    ("unix:" + path).c_str());
}

static void fail_request(void *request, lend_status status, const char *why)
{
	static_cast<Served *>(request)->fail(status, why);
}

static void answer_bytes(void *request, void *bytes, size_t len)
{
	grpc::Slice slice(bytes, len, lend_free);

	static_cast<Served *>(request)->answer(ByteBuffer(&slice, 1));
}

static void forward(social_role role, unsigned method, const ProtobufCMessage *input, void *request, uint64_t *)
{
	Call *call;

	if (!stub_of(role)) {
		fail_request(request, LEND_UNAVAILABLE, social_role_names[role]);
		return;
	}
	call = new Call;
	call->role = role;
	call->data = request;
	call->start(method, input);
}

int main(int argc, char **argv)
{
	const social_transport over_grpc = {serve,	  client_of,	status_of,
					    fail_request, answer_bytes, forward};
	int rc = social_main(argc, argv, &over_grpc);

	std::fflush(nullptr);
	std::_Exit(rc); /* gRPC's threads still run */
}
