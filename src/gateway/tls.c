/* tls - sockets with or without TLS. See tls.h. */
#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "gateway/tls.h"

/* OpenSSL's own sockets raise SIGPIPE. */
static int bio_read(BIO *bio, char *to, int cap)
{
	ssize_t n = tls_read(NULL, (int)(intptr_t)BIO_get_data(bio), to, (size_t)cap);

	BIO_clear_retry_flags(bio);
	if (n == -EAGAIN)
		BIO_set_retry_read(bio);
	return n < 0 ? -1 : (int)n;
}

static int bio_write(BIO *bio, const char *from, int len)
{
	bool writable;
	ssize_t n = tls_write(NULL, (int)(intptr_t)BIO_get_data(bio), from, (size_t)len, &writable);

	BIO_clear_retry_flags(bio);
	if (n == -EAGAIN)
		BIO_set_retry_write(bio);
	return n < 0 ? -1 : (int)n;
}

static long bio_control(BIO *bio, int command, long number, void *arg)
{
	(void)bio;
	(void)number;
	(void)arg;
	return command == BIO_CTRL_FLUSH;
}

/* Makes a BIO of a socket. NULL: no memory. */
static BIO *make_bio(int fd)
{
	static BIO_METHOD *method; /* of the process: threads may make one more, which stays */
	BIO_METHOD *made = __atomic_load_n(&method, __ATOMIC_ACQUIRE);
	BIO *bio;

	if (!made) {
		made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "lend");
		if (!made || BIO_meth_set_read(made, bio_read) != 1 ||
		    BIO_meth_set_write(made, bio_write) != 1 ||
		    BIO_meth_set_ctrl(made, bio_control) != 1)
			return NULL;
		__atomic_store_n(&method, made, __ATOMIC_RELEASE);
	}
	bio = BIO_new(made);
	if (!bio)
		return NULL;
	BIO_set_data(bio, (void *)(intptr_t)fd);
	BIO_set_init(bio, 1);
	return bio;
}

/* Chooses HTTP/2 among what the client offers; without it, the handshake fails. */
static int choose_protocol(SSL *tls, const unsigned char **out, unsigned char *len,
			   const unsigned char *offered, unsigned offered_len, void *arg)
{
	(void)tls;
	(void)arg;
	for (unsigned i = 0; i < offered_len; i += offered[i] + 1u)
		if (offered[i] == 2 && offered_len - i > 2 &&
		    memcmp(offered + i + 1, "h2", 2) == 0) {
			*out = offered + i + 1;
			*len = 2;
			return SSL_TLSEXT_ERR_OK;
		}
	return SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* Makes the settings that both ends have. */
static SSL_CTX *make_settings(const SSL_METHOD *method)
{
	SSL_CTX *made = SSL_CTX_new(method);

	if (!made)
		return NULL;
	SSL_CTX_set_min_proto_version(made, TLS1_2_VERSION);
	SSL_CTX_set_options(made, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	SSL_CTX_set_mode(made, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				   SSL_MODE_RELEASE_BUFFERS);
	return made;
}

int tls_server(const char *chain, const char *key, SSL_CTX **settings)
{
	SSL_CTX *made = make_settings(TLS_server_method());

	if (!made)
		return -ENOMEM;
	SSL_CTX_set_alpn_select_cb(made, choose_protocol, NULL);
	if (SSL_CTX_use_certificate_chain_file(made, chain) == 1 &&
	    SSL_CTX_use_PrivateKey_file(made, key, SSL_FILETYPE_PEM) == 1) {
		*settings = made;
		return 0;
	}
	ERR_clear_error();
	SSL_CTX_free(made);
	return -ENOENT;
}

int tls_client(const char *ca, SSL_CTX **settings)
{
	SSL_CTX *made = make_settings(TLS_client_method());

	if (!made || SSL_CTX_set_alpn_protos(made, (const uint8_t *)"\2h2", 3) != 0) {
		SSL_CTX_free(made);
		return -ENOMEM;
	}
	SSL_CTX_set_verify(made, SSL_VERIFY_PEER, NULL);
	if ((ca ? SSL_CTX_load_verify_file(made, ca) : SSL_CTX_set_default_verify_paths(made)) ==
	    1) {
		*settings = made;
		return 0;
	}
	ERR_clear_error();
	SSL_CTX_free(made);
	return -ENOKEY;
}

/* Sets the server that a client expects. Returns false without memory. */
static bool expect_server(SSL *tls, const char *server)
{
	X509_VERIFY_PARAM *verify = SSL_get0_param(tls);

	if (X509_VERIFY_PARAM_set1_ip_asc(verify, server) == 1)
		return true;
	ERR_clear_error();
	return SSL_set_tlsext_host_name(tls, server) == 1 && SSL_set1_host(tls, server) == 1;
}

const char *tls_why(SSL *tls)
{
	long verified = SSL_get_verify_result(tls);
	const unsigned char *protocol;
	unsigned len;

	if (verified != X509_V_OK)
		return X509_verify_cert_error_string(verified);
	SSL_get0_alpn_selected(tls, &protocol, &len);
	return SSL_is_init_finished(tls) && len != 2 ? "the server does not offer HTTP/2" : NULL;
}

SSL *tls_begin(SSL_CTX *settings, int fd, const char *server)
{
	SSL *tls = SSL_new(settings);
	BIO *bio = tls && (!server || expect_server(tls, server)) ? make_bio(fd) : NULL;

	if (!bio) {
		SSL_free(tls);
		return NULL;
	}
	SSL_set_bio(tls, bio, bio);
	if (server)
		SSL_set_connect_state(tls);
	else
		SSL_set_accept_state(tls);
	return tls;
}

/* Returns the error of a function of OpenSSL that returned n. */
static ssize_t tls_error(SSL *tls, int n, bool *writable)
{
	int error = SSL_get_error(tls, n);

	ERR_clear_error();
	if (writable)
		*writable = error == SSL_ERROR_WANT_WRITE;
	if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
		return -EAGAIN;
	return error == SSL_ERROR_ZERO_RETURN ? 0 : -EPROTO;
}

static int int_length(size_t len)
{
	return len > INT_MAX ? INT_MAX : (int)len;
}

ssize_t tls_read(SSL *tls, int fd, void *to, size_t cap)
{
	ssize_t n;

	if (tls) {
		int got = SSL_read(tls, to, int_length(cap));

		return got > 0 ? got : tls_error(tls, got, NULL);
	}
	do
		n = recv(fd, to, cap, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

ssize_t tls_write(SSL *tls, int fd, const void *from, size_t len, bool *writable)
{
	ssize_t n;

	if (tls) {
		int put = SSL_write(tls, from, int_length(len));

		return put > 0 ? put : tls_error(tls, put, writable);
	}
	do
		n = send(fd, from, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	*writable = true;
	return n < 0 ? -errno : n;
}

void tls_shutdown(SSL *tls, int fd)
{
	if (tls)
		(void)SSL_shutdown(tls);
	ERR_clear_error();
	(void)shutdown(fd, SHUT_WR);
}
