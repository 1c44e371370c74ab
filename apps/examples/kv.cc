// kv - a key-value store in C++.
//   c++ -std=c++17 -o kv kv.cc $(pkg-config --cflags --libs lend)
//   ./kv &                     serves at shm:kv
//   ./kv put color blue        or: lend call shm:kv 1 --data color=blue
//   ./kv get color             or: lend call shm:kv 2 --data color
#include <lend/rpc.h>

#include <cstring>
#include <iostream>
#include <string>
#include <string_view>
#include <unordered_map>

enum : uint32_t { PUT = 1, GET = 2 };

struct Store {
	lend_ep *ep;
	std::unordered_map<std::string, std::string> value;
};

static std::string_view text_of(const lend_buf *buf)
{
	return {static_cast<const char *>(buf->data), buf->len};
}

static lend_buf *buf_of(lend_ep *ep, std::string_view text)
{
	lend_buf *buf = lend_buf_take(ep, static_cast<uint32_t>(text.size()));

	if (buf) {
		memcpy(buf->data, text.data(), text.size());
		buf->len = static_cast<uint32_t>(text.size());
	}
	return buf;
}

static void put(lend_request request, const lend_buf *bytes, void *arg)
{
	auto *store = static_cast<Store *>(arg);
	std::string_view text = text_of(bytes);
	size_t at = text.find('=');

	if (at == text.npos) {
		lend_reply(store->ep, request, LEND_INVALID_ARGUMENT, nullptr);
		return;
	}
	store->value[std::string(text.substr(0, at))] = text.substr(at + 1);
	lend_reply(store->ep, request, LEND_OK, nullptr);
}

static void get(lend_request request, const lend_buf *bytes, void *arg)
{
	auto *store = static_cast<Store *>(arg);
	auto found = store->value.find(std::string(text_of(bytes)));

	if (found == store->value.end())
		lend_reply(store->ep, request, LEND_NOT_FOUND, nullptr);
	else if (lend_buf *reply = buf_of(store->ep, found->second))
		lend_reply(store->ep, request, LEND_OK, reply);
	else
		lend_reply(store->ep, request, LEND_RESOURCE_EXHAUSTED, nullptr);
}

static int ask(lend_ep *ep, uint32_t method, const std::string &text)
{
	lend_call call = {};
	lend_session session;

	call.method = method;
	call.request = buf_of(ep, text);
	if (lend_connect(ep, "shm:kv", &session) < 0 || lend_call_sync(ep, session, &call) < 0)
		return -1;
	if (call.status == LEND_OK && method == GET)
		std::cout << text_of(call.reply) << '\n';
	else if (call.status != LEND_OK)
		std::cerr << "kv: " << text << ": status " << call.status << '\n';
	lend_buf_give(ep, call.request);
	lend_buf_give(ep, call.reply);
	return call.status == LEND_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
	lend_config config = {};
	Store store = {};
	int rc;

	config.size = sizeof(config);
	config.listen = argc > 1 ? nullptr : "shm:kv";
	if ((rc = lend_open(&config, &store.ep)) == 0 && argc > 2)
		rc = argc > 3 ? ask(store.ep, PUT, std::string(argv[2]) + '=' + argv[3])
			      : ask(store.ep, GET, argv[2]);
	else if (rc == 0 && (rc = lend_serve(store.ep, PUT, put, &store, 0)) == 0 &&
		 (rc = lend_serve(store.ep, GET, get, &store, 0)) == 0)
		rc = lend_run(store.ep, LEND_NEVER);
	if (rc < 0)
		std::cerr << "kv: " << lend_why() << '\n';
	lend_close(store.ep);
	return rc != 0;
}
