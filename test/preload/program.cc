/* program - a gRPC C++ program that knows nothing of Lend: a server, and clients that check each
 * kind of call by each API of gRPC C++, or measure calls.
 *
 * usage: program serve PORT | check PORT blocking|queue|callback | die PORT | share PORT | again PORT [queue] | drain PORT | bench PORT SECONDS [WINDOW]
 *
 * check prints "ok N". Metadata of a call comes back as initial and trailing metadata. */
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "numbers.grpc.pb.h"

using grpc::ClientContext;
using grpc::ServerContext;
using grpc::Status;
using grpc::StatusCode;
using numbers::Number;
using numbers::Numbers;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using std::chrono::system_clock;

static unsigned checks;
static const char *step = "";

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			std::fprintf(stderr, "%s: line %d: %s\n", step, __LINE__, #cond);          \
			std::exit(1);                                                              \
		}                                                                                  \
		checks++;                                                                          \
	} while (0)

enum { REFUSED = -1, SLOW = -2, DEAD = -3, DATAGRAMS = -4, DRAIN = -5 }; /* values with a meaning */

static Number number(int64_t value, size_t padding = 0)
{
	Number n;

	n.set_value(value);
	n.set_padding(std::string(padding, 'x'));
	return n;
}

class Service final : public Numbers::Service
{
	static void answer_metadata(ServerContext *context)
	{
		for (const auto &pair : context->client_metadata()) {
			const std::string key(pair.first.data(), pair.first.size());
			const std::string value(pair.second.data(), pair.second.size());

			if (key == "x-text" || key == "x-bytes-bin") {
				context->AddInitialMetadata(key, value);
				context->AddTrailingMetadata("t" + key, value);
			}
		}
	}

	Status Twice(ServerContext *context, const Number *in, Number *out) override
	{
		answer_metadata(context);
		if (in->value() == REFUSED)
			return {StatusCode::FAILED_PRECONDITION, "refused: \xc3\xa4"};
		if (in->value() == DEAD)
			std::_Exit(3);
		while (in->value() == SLOW && !context->IsCancelled())
			std::this_thread::sleep_for(milliseconds(1));
		out->set_value(2 * in->value());
		out->set_padding(in->padding());
		return Status::OK;
	}

	Status Count(ServerContext *context, const Number *in,
		     grpc::ServerWriter<Number> *writer) override
	{
		answer_metadata(context);
		if (in->value() == REFUSED)
			return {StatusCode::NOT_FOUND, "nothing to count"};
		for (int64_t i = 0; i < in->value(); i++)
			if (!writer->Write(number(i)))
				break;
		return Status::OK;
	}

	Status Sum(ServerContext *context, grpc::ServerReader<Number> *reader, Number *out) override
	{
		Number in;

		answer_metadata(context);
		while (reader->Read(&in))
			out->set_value(out->value() + in.value());
		return Status::OK;
	}

	Status Echo(ServerContext *context,
		    grpc::ServerReaderWriter<Number, Number> *stream) override
	{
		Number in;

		answer_metadata(context);
		if (context->client_metadata().count("x-greet"))
			stream->Write(number(1));
		while (stream->Read(&in))
			stream->Write(in);
		return {StatusCode::ALREADY_EXISTS, "all echoed"};
	}
};

static int serve(const std::string &port)
{
	grpc::ServerBuilder builder;
	Service service;
	sigset_t stop;
	int signal, bound = 0;

	sigemptyset(&stop);
	sigaddset(&stop, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &stop, nullptr);
	builder.AddListeningPort("127.0.0.1:" + port, grpc::InsecureServerCredentials(), &bound);
	builder.RegisterService(&service);
	std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
	if (!server)
		return 1;
	std::printf("%d\n", bound);
	std::fflush(stdout);
	sigwait(&stop, &signal);
	server->Shutdown(system_clock::now() + milliseconds(500));
	return 0;
}

static bool has(const std::multimap<grpc::string_ref, grpc::string_ref> &all, const char *key,
		const std::string &value)
{
	auto at = all.find(key);

	return at != all.end() && std::string(at->second.data(), at->second.size()) == value;
}

static const std::string bytes("\0\xff binary", 9);

static void add_metadata(ClientContext *context)
{
	context->AddMetadata("x-text", "some text");
	context->AddMetadata("x-bytes-bin", bytes);
}

static void check_metadata(const ClientContext &context)
{
	CHECK(has(context.GetServerInitialMetadata(), "x-text", "some text"));
	CHECK(has(context.GetServerInitialMetadata(), "x-bytes-bin", bytes));
	CHECK(has(context.GetServerTrailingMetadata(), "tx-text", "some text"));
	CHECK(has(context.GetServerTrailingMetadata(), "tx-bytes-bin", bytes));
}

/* --- blocking --------------------------------------------------------------------------------- */

static void check_unary(Numbers::Stub *stub)
{
	for (size_t padding : {0u, 100u, 100000u, 3000000u}) {
		ClientContext context;
		Number out;

		add_metadata(&context);
		Status status = stub->Twice(&context, number(21, padding), &out);
		CHECK(status.ok());
		CHECK(out.value() == 42 && out.padding() == std::string(padding, 'x'));
		check_metadata(context);
	}
	ClientContext refused, slow, longest;
	Number out;
	Status status = stub->Twice(&refused, number(REFUSED), &out);

	CHECK(status.error_code() == StatusCode::FAILED_PRECONDITION);
	CHECK(status.error_message() == "refused: \xc3\xa4");
	slow.set_deadline(system_clock::now() + milliseconds(50));
	status = stub->Twice(&slow, number(SLOW), &out);
	CHECK(status.error_code() == StatusCode::DEADLINE_EXCEEDED);
	status = stub->Twice(&longest, number(1, 5 << 20), &out);
	CHECK(status.error_code() == StatusCode::RESOURCE_EXHAUSTED);
}

static void check_cancel(Numbers::Stub *stub)
{
	ClientContext context;
	Number out;
	std::thread canceller([&] {
		std::this_thread::sleep_for(milliseconds(30));
		context.TryCancel();
	});
	Status status = stub->Twice(&context, number(SLOW), &out);

	canceller.join();
	CHECK(status.error_code() == StatusCode::CANCELLED);
}

static void check_streams(Numbers::Stub *stub)
{
	ClientContext counts, refuses, sums, echoes, ends;
	Number in, out;
	int64_t n = 0;

	add_metadata(&counts);
	auto reader = stub->Count(&counts, number(1000));
	for (; reader->Read(&in); n++)
		CHECK(in.value() == n);
	CHECK(reader->Finish().ok() && n == 1000);
	check_metadata(counts);
	reader = stub->Count(&refuses, number(REFUSED));
	CHECK(!reader->Read(&in));
	CHECK(reader->Finish().error_code() == StatusCode::NOT_FOUND);
	add_metadata(&sums);
	auto writer = stub->Sum(&sums, &out);
	for (n = 0; n < 1000; n++)
		CHECK(writer->Write(number(n)));
	CHECK(writer->WritesDone());
	Status summed = writer->Finish();
	CHECK(summed.ok());
	CHECK(out.value() == 499500);
	check_metadata(sums);
	add_metadata(&echoes);
	auto both = stub->Echo(&echoes);
	for (n = 0; n < 300; n++) {
		CHECK(both->Write(number(n, n * 100)) && both->Read(&in));
		CHECK(in.value() == n && in.padding().size() == static_cast<size_t>(n) * 100);
	}
	CHECK(both->WritesDone() && !both->Read(&in));
	Status status = both->Finish();
	CHECK(status.error_code() == StatusCode::ALREADY_EXISTS &&
	      status.error_message() == "all echoed");
	check_metadata(echoes);
	both = stub->Echo(&ends);
	CHECK(both->Write(number(1)) && both->Read(&in));
	ends.TryCancel();
	while (both->Read(&in))
		;
	CHECK(both->Finish().error_code() == StatusCode::CANCELLED);
}

static void check_threads(Numbers::Stub *stub)
{
	std::vector<std::thread> threads;
	std::atomic<unsigned> good{0};

	for (int64_t t = 0; t < 8; t++)
		threads.emplace_back([&good, stub, t] {
			for (int64_t i = 0; i < 200; i++) {
				ClientContext context;
				Number out;

				good += stub->Twice(&context, number(i * t), &out).ok() &&
					out.value() == 2 * i * t;
			}
		});
	for (std::thread &thread : threads)
		thread.join();
	CHECK(good == 1600);
}

/* --- completion queues ------------------------------------------------------------------------ */

static void *tag(uintptr_t n)
{
	return reinterpret_cast<void *>(n);
}

static bool next(grpc::CompletionQueue *queue, uintptr_t want)
{
	void *got;
	bool ok = false;

	CHECK(queue->Next(&got, &ok) && got == tag(want));
	return ok;
}

struct Asked {
	ClientContext context;
	std::unique_ptr<grpc::ClientAsyncResponseReader<Number>> reader;
	Number out;
	Status status;
};

static void check_queue_unary(Numbers::Stub *stub, grpc::CompletionQueue *queue)
{
	std::vector<Asked> asked(200);
	Asked separate;
	void *got;
	bool ok;

	for (size_t i = 0; i < asked.size(); i++) {
		asked[i].reader = stub->AsyncTwice(&asked[i].context, number(static_cast<int64_t>(i)), queue);
		asked[i].reader->Finish(&asked[i].out, &asked[i].status, tag(i));
	}
	for (size_t i = 0; i < asked.size(); i++) {
		CHECK(queue->Next(&got, &ok) && ok);
		const Asked &a = asked[reinterpret_cast<uintptr_t>(got)];
		CHECK(a.status.ok() &&
		      a.out.value() == 2 * static_cast<int64_t>(reinterpret_cast<uintptr_t>(got)));
	}
	add_metadata(&separate.context);
	separate.reader = stub->AsyncTwice(&separate.context, number(4), queue);
	separate.reader->ReadInitialMetadata(tag(1));
	CHECK(next(queue, 1));
	CHECK(has(separate.context.GetServerInitialMetadata(), "x-text", "some text"));
	separate.reader->Finish(&separate.out, &separate.status, tag(2));
	CHECK(next(queue, 2) && separate.status.ok() && separate.out.value() == 8);
	check_metadata(separate.context);
}

/* Calls one after the other: none shows traces of the one before. */
static void check_queue_again(Numbers::Stub *stub, grpc::CompletionQueue *queue)
{
	for (int64_t i = 0; i < 40; i++) {
		const bool refused = i % 4 == 1, tells = i % 4 == 2;
		Asked a;

		if (tells)
			add_metadata(&a.context);
		a.reader = stub->AsyncTwice(&a.context, number(refused ? REFUSED : i), queue);
		a.reader->Finish(&a.out, &a.status, tag(3));
		CHECK(next(queue, 3) && a.status.ok() == !refused);
		CHECK(a.status.error_message().empty() == !refused && a.out.value() == (refused ? 0 : 2 * i));
		CHECK(has(a.context.GetServerInitialMetadata(), "x-text", "some text") == tells);
		CHECK(has(a.context.GetServerTrailingMetadata(), "tx-text", "some text") == tells);
		if (i % 4 == 3)
			a.context.TryCancel();
	}
}

static void check_queue_streams(Numbers::Stub *stub, grpc::CompletionQueue *queue)
{
	ClientContext counts, echoes, idle;
	Number in;
	Status status;
	int64_t n = 0;
	void *got;
	bool ok;
	auto reader = stub->AsyncCount(&counts, number(100), queue, tag(1));

	CHECK(next(queue, 1));
	for (reader->Read(&in, tag(2)); next(queue, 2); reader->Read(&in, tag(2)))
		CHECK(in.value() == n++);
	CHECK(n == 100);
	reader->Finish(&status, tag(3));
	CHECK(next(queue, 3) && status.ok());
	auto both = stub->AsyncEcho(&echoes, queue, tag(1));
	CHECK(next(queue, 1));
	for (n = 0; n < 100; n++) {
		both->Write(number(n), tag(4));
		CHECK(next(queue, 4));
		both->Read(&in, tag(5));
		CHECK(next(queue, 5) && in.value() == n);
	}
	both->WritesDone(tag(6));
	CHECK(next(queue, 6));
	both->Finish(&status, tag(7));
	CHECK(next(queue, 7) && status.error_code() == StatusCode::ALREADY_EXISTS);
	CHECK(queue->AsyncNext(&got, &ok, system_clock::now() + milliseconds(5)) ==
	      grpc::CompletionQueue::TIMEOUT);
	idle.set_deadline(system_clock::now() + milliseconds(20));
	both = stub->AsyncEcho(&idle, queue, tag(1));
	CHECK(next(queue, 1));
	both->Read(&in, tag(2));
	CHECK(!next(queue, 2));
	both->Write(number(1), tag(3));
	CHECK(!next(queue, 3));
	both->Finish(&status, tag(4));
	CHECK(next(queue, 4) && status.error_code() == StatusCode::DEADLINE_EXCEEDED);
}

static void check_queues(Numbers::Stub *stub)
{
	grpc::CompletionQueue queue, other;
	Asked late;
	void *got;
	bool ok;

	check_queue_unary(stub, &queue);
	check_queue_again(stub, &queue);
	check_queue_streams(stub, &queue);
	late.reader = stub->AsyncTwice(&late.context, number(5), &queue);
	late.reader->Finish(&late.out, &late.status, tag(9));
	queue.Shutdown();
	CHECK(next(&queue, 9) && late.out.value() == 10);
	CHECK(!queue.Next(&got, &ok));
	std::thread waits([&other] { CHECK(next(&other, 7)); }); /* before there is a call */
	std::this_thread::sleep_for(milliseconds(30));
	Asked second;
	second.reader = stub->AsyncTwice(&second.context, number(6), &other);
	second.reader->Finish(&second.out, &second.status, tag(7));
	waits.join();
	CHECK(second.out.value() == 12);
	other.Shutdown();
	CHECK(!other.Next(&got, &ok));
}

/* --- callbacks -------------------------------------------------------------------------------- */

struct Latch {
	std::mutex lock;
	std::condition_variable changed;
	unsigned left;

	explicit Latch(unsigned n) : left(n)
	{
	}
	void down()
	{
		std::lock_guard<std::mutex> guard(lock);
		left--;
		changed.notify_all();
	}
	void wait()
	{
		std::unique_lock<std::mutex> guard(lock);
		CHECK(changed.wait_for(guard, std::chrono::seconds(20), [this] { return !left; }));
	}
};

struct Reader final : grpc::ClientReadReactor<Number> {
	ClientContext context;
	Number in;
	int64_t n = 0;
	Status status;
	Latch done{1};

	Reader(Numbers::Stub *stub, const Number *from)
	{
		add_metadata(&context);
		stub->async()->Count(&context, from, this);
		StartRead(&in);
		StartCall();
	}
	void OnReadDone(bool ok) override
	{
		if (!ok)
			return;
		n += in.value() == n;
		StartRead(&in);
	}
	void OnDone(const Status &s) override
	{
		status = s;
		done.down();
	}
};

struct Echoer final : grpc::ClientBidiReactor<Number, Number> {
	ClientContext context;
	Number in, out;
	std::atomic<int64_t> n{0};
	std::atomic<unsigned> ended{0}; /* reads and writes */
	Status status;
	Latch done{1};

	explicit Echoer(Numbers::Stub *stub)
	{
		add_metadata(&context);
		stub->async()->Echo(&context, this);
		StartRead(&in);
		out = number(0);
		StartWrite(&out);
		StartCall();
	}
	/* The next write follows when the last one and its reply are done. */
	void go_on()
	{
		if (++ended % 2)
			return;
		out = number(n);
		if (n < 100)
			StartWrite(&out);
		else
			StartWritesDone();
	}
	void OnReadDone(bool ok) override
	{
		if (!ok)
			return;
		n += in.value() == n;
		StartRead(&in);
		go_on();
	}
	void OnWriteDone(bool ok) override
	{
		if (ok)
			go_on();
	}
	void OnDone(const Status &s) override
	{
		status = s;
		done.down();
	}
};

struct Unary final : grpc::ClientUnaryReactor {
	ClientContext context;
	Number in = number(8), out;
	Status status;
	bool initial = false;
	Latch done{1};

	explicit Unary(Numbers::Stub *stub)
	{
		add_metadata(&context);
		stub->async()->Twice(&context, &in, &out, this);
		StartCall();
	}
	void OnReadInitialMetadataDone(bool ok) override
	{
		initial = ok;
	}
	void OnDone(const Status &s) override
	{
		status = s;
		done.down();
	}
};

static void check_callbacks(Numbers::Stub *stub)
{
	constexpr unsigned n = 200;
	std::vector<std::unique_ptr<Asked>> asked;
	std::vector<Number> in;
	const Number hundred = number(100);
	Latch latch(n);

	for (unsigned i = 0; i < n; i++) {
		asked.push_back(std::make_unique<Asked>());
		in.push_back(number(i));
	}
	for (unsigned i = 0; i < n; i++)
		stub->async()->Twice(&asked[i]->context, &in[i], &asked[i]->out, [&, i](const Status &s) {
			asked[i]->status = s;
			latch.down();
		});
	latch.wait();
	for (unsigned i = 0; i < n; i++)
		CHECK(asked[i]->status.ok() && asked[i]->out.value() == 2 * i);
	Reader reader(stub, &hundred);
	reader.done.wait();
	CHECK(reader.status.ok() && reader.n == 100);
	check_metadata(reader.context);
	Echoer echoer(stub);
	echoer.done.wait();
	CHECK(echoer.status.error_code() == StatusCode::ALREADY_EXISTS && echoer.n == 100);
	check_metadata(echoer.context);
	Unary unary(stub);
	unary.done.wait();
	CHECK(unary.status.ok() && unary.initial && unary.out.value() == 16);
	check_metadata(unary.context);
}

static std::unique_ptr<Numbers::Stub> stub_of(const std::string &port)
{
	return Numbers::NewStub(
	    grpc::CreateChannel("127.0.0.1:" + port, grpc::InsecureChannelCredentials()));
}

static int check(const std::string &port, const std::string &api)
{
	std::unique_ptr<Numbers::Stub> stub = stub_of(port);

	step = api.c_str();
	if (api == "blocking") {
		check_unary(stub.get());
		check_cancel(stub.get());
		check_streams(stub.get());
		check_threads(stub.get());
	} else if (api == "queue") {
		check_queues(stub.get());
	} else {
		check_callbacks(stub.get());
	}
	std::printf("ok %u\n", checks);
	return 0;
}

/* The server ends during a call, which ends UNAVAILABLE. */
static int die(const std::string &port)
{
	ClientContext context;
	Number out;
	Status status = stub_of(port)->Twice(&context, number(DEAD), &out);

	std::printf("%d\n", status.error_code());
	return 0;
}

/* Returns the status of a call, blocking or by a queue. */
static int ask(Numbers::Stub *stub, grpc::CompletionQueue *queue)
{
	Asked a;

	if (!queue)
		return stub->Twice(&a.context, number(1), &a.out).error_code();
	a.reader = stub->AsyncTwice(&a.context, number(1), queue);
	a.reader->Finish(&a.out, &a.status, tag(4));
	CHECK(next(queue, 4));
	return a.status.error_code();
}

/* Calls, waits for a line, and calls twice on the same channel. Prints the statuses. */
static int again(const std::string &port, bool queues)
{
	std::unique_ptr<Numbers::Stub> stub = stub_of(port);
	grpc::CompletionQueue queue;

	for (int i = 0; i < 3; i++) {
		std::printf("%d\n", ask(stub.get(), queues ? &queue : nullptr));
		std::fflush(stdout);
		while (i == 0 && std::getchar() != '\n')
			;
	}
	return 0;
}

/* The native server refuses calls from now on. Streams of which it got the metadata only continue
 * over HTTP/2, whether an operation is pending when they are refused or not. */
static int drain(const std::string &port)
{
	std::unique_ptr<Numbers::Stub> stub = stub_of(port);
	grpc::CompletionQueue queue;
	ClientContext first;
	Number in, out;

	CHECK(stub->Twice(&first, number(DRAIN), &out).ok());
	for (int pending = 0; pending < 2; pending++) {
		ClientContext context;
		Status status;
		void *got;
		bool ok;

		add_metadata(&context);
		if (pending)
			context.AddMetadata("x-greet", "");
		auto both = stub->AsyncEcho(&context, &queue, tag(1));
		CHECK(next(&queue, 1));
		if (pending)
			both->Read(&in, tag(2));
		CHECK(ask(stub.get(), nullptr) == StatusCode::OK); /* runs turns */
		if (pending)
			CHECK(next(&queue, 2) && in.value() == 1);
		both->Write(number(7), tag(2));
		both->Read(&in, tag(2));
		CHECK(queue.Next(&got, &ok) && ok && queue.Next(&got, &ok) && ok);
		CHECK(in.value() == 7);
		both->WritesDone(tag(3));
		CHECK(next(&queue, 3));
		both->Finish(&status, tag(4));
		CHECK(next(&queue, 4) && status.error_code() == StatusCode::ALREADY_EXISTS);
		check_metadata(context);
	}
	ClientContext context;
	add_metadata(&context);
	auto both = stub->Echo(&context);
	CHECK(ask(stub.get(), nullptr) == StatusCode::OK);
	CHECK(both->Write(number(9)) && both->Read(&in) && in.value() == 9);
	CHECK(both->WritesDone() && both->Finish().error_code() == StatusCode::ALREADY_EXISTS);
	check_metadata(context);
	std::printf("ok %u\n", checks);
	return 0;
}

static double percentile(std::vector<double> *us, double part)
{
	auto at = us->begin() + static_cast<long>(part * static_cast<double>(us->size() - 1));

	std::nth_element(us->begin(), at, us->end());
	return *at;
}

static void bench_blocking(Numbers::Stub *stub, steady_clock::time_point end,
			   std::vector<double> *us)
{
	const Number in = number(1, 32);

	for (auto from = steady_clock::now(); from < end;) {
		ClientContext context;
		Number out;

		if (!stub->Twice(&context, in, &out).ok() || out.value() != 2)
			std::exit(1);
		auto to = steady_clock::now();
		us->push_back(std::chrono::duration<double, std::micro>(to - from).count());
		from = to;
	}
}

static void bench_queue(Numbers::Stub *stub, steady_clock::time_point end, size_t calls,
			unsigned window, std::vector<double> *us)
{
	struct Timed : Asked {
		steady_clock::time_point from;
	};
	std::vector<std::unique_ptr<Timed>> asked(window);
	const Number in = number(1, 32);
	grpc::CompletionQueue queue;
	unsigned running = 0;
	void *got;
	bool ok;
	auto start = [&](size_t i) {
		asked[i] = std::make_unique<Timed>();
		asked[i]->from = steady_clock::now();
		asked[i]->reader = stub->AsyncTwice(&asked[i]->context, in, &queue);
		asked[i]->reader->Finish(&asked[i]->out, &asked[i]->status, tag(i));
		running++;
	};

	for (size_t i = 0; i < window; i++)
		start(i);
	while (running && queue.Next(&got, &ok)) {
		auto i = reinterpret_cast<uintptr_t>(got);
		auto to = steady_clock::now();

		running--;
		if (!asked[i]->status.ok() || asked[i]->out.value() != 2)
			std::exit(1);
		us->push_back(
		    std::chrono::duration<double, std::micro>(to - asked[i]->from).count());
		if (to < end && us->size() + running < calls)
			start(i);
	}
	queue.Shutdown();
	while (queue.Next(&got, &ok))
		;
}

static int bench(const std::string &port, double seconds, unsigned window)
{
	std::unique_ptr<Numbers::Stub> stub = stub_of(port);
	std::vector<double> us;
	auto from = steady_clock::now();
	auto end = from + std::chrono::duration_cast<steady_clock::duration>(
			      std::chrono::duration<double>(seconds));

	if (window)
		bench_queue(stub.get(), end, SIZE_MAX, window, &us);
	else
		bench_blocking(stub.get(), end, &us);
	double took = std::chrono::duration<double>(steady_clock::now() - from).count();
	std::printf("{\"calls\": %zu, \"calls_per_s\": %.0f, \"p50_us\": %.2f, \"p99_us\": %.2f}\n",
		    us.size(), static_cast<double>(us.size()) / took, percentile(&us, 0.5),
		    percentile(&us, 0.99));
	return 0;
}

/* Calls that are started while other replies wait to be taken share datagrams. */
static int share(const std::string &port)
{
	std::unique_ptr<Numbers::Stub> stub = stub_of(port);
	std::vector<double> us;
	ClientContext context;
	Number out;

	bench_queue(stub.get(), steady_clock::time_point::max(), 1000, 50, &us);
	CHECK(us.size() == 1000);
	CHECK(stub->Twice(&context, number(DATAGRAMS), &out).ok());
	std::printf("%lld\n", static_cast<long long>(out.value()));
	return 0;
}

int main(int argc, char **argv)
{
	const std::string what = argc > 2 ? argv[1] : "";

	if (what == "serve")
		return serve(argv[2]);
	if (what == "check" && argc > 3)
		return check(argv[2], argv[3]);
	if (what == "die")
		return die(argv[2]);
	if (what == "share")
		return share(argv[2]);
	if (what == "again")
		return again(argv[2], argc > 3);
	if (what == "drain")
		return drain(argv[2]);
	if (what == "bench" && argc > 3)
		return bench(argv[2], std::atof(argv[3]),
			     argc > 4 ? static_cast<unsigned>(std::atoi(argv[4])) : 0);
	std::fprintf(stderr, "usage: program serve|check|die|share|again|drain|bench PORT ...\n");
	return 2;
}
