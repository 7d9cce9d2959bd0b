#include "operator/kube/tls_context.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <cstdlib>
#include <memory>
#include <string_view>

namespace lockstep::kube {
namespace {

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

Bio read_from(const std::string& text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), &BIO_free};
}

Certificate next_certificate(BIO* bio) {
  return {PEM_read_bio_X509(bio, nullptr, nullptr, nullptr), &X509_free};
}

// The machine's authorities as they were configured before spare_system_authorities().
struct SystemAuthorities {
  std::string file, folder;
  std::map<std::string, std::optional<std::string>> environment;  // of the two variables
};
std::optional<SystemAuthorities>& spared() {
  static std::optional<SystemAuthorities> authorities;
  return authorities;
}

// The authorities that OpenSSL would have loaded by itself.
void trust_system(SSL_CTX* context) {
  if (const auto& system = spared()) {
    SSL_CTX_load_verify_file(context, system->file.c_str());
    SSL_CTX_load_verify_dir(context, system->folder.c_str());
    ERR_clear_error();  // either may be missing
  }
}

// Trusts the certificates in `pem` and nothing else. False when there is none in it.
bool trust_only(SSL_CTX* context, const std::string& pem) {
  X509_STORE* store = X509_STORE_new();
  if (store == nullptr) return false;
  // Any configured certificate is an anchor, also an intermediate or the server's own, as in kubectl.
  X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN);
  const Bio bio = read_from(pem);
  int added = 0;
  while (const Certificate certificate = next_certificate(bio.get())) {
    added += X509_STORE_add_cert(store, certificate.get()) == 1 ? 1 : 0;
  }
  ERR_clear_error();                       // the end of the file is an "error" to the PEM reader
  SSL_CTX_set_cert_store(context, store);  // takes ownership of the store
  return added > 0;
}

bool show(SSL_CTX* context, const ClientCertificate& shown) {
  const Bio certificates = read_from(shown.certificate_pem), keys = read_from(shown.key_pem);
  const Certificate own = next_certificate(certificates.get());
  if (!own || SSL_CTX_use_certificate(context, own.get()) != 1) return false;
  while (const Certificate issuer = next_certificate(certificates.get())) {
    if (SSL_CTX_add1_chain_cert(context, issuer.get()) != 1) return false;
  }
  const Key key(PEM_read_bio_PrivateKey(keys.get(), nullptr, nullptr, nullptr), &EVP_PKEY_free);
  return key && SSL_CTX_use_PrivateKey(context, key.get()) == 1;
}

Status use_certificate(SSL_CTX* context, const ClientCertificate& certificate) {
  if (certificate.certificate_pem.empty()) return {};
  const bool used = show(context, certificate);
  const char* reason = ERR_reason_error_string(ERR_peek_error());
  ERR_clear_error();
  if (used) return {};
  return fail(ErrorCode::kInvalid, fmt::format("the client certificate or its key cannot be used: {}",
                                               reason == nullptr ? "unknown reason" : reason));
}

}  // namespace

void spare_system_authorities() {
  if (spared()) return;
  SystemAuthorities system;
  const auto replace = [&system](const char* variable, const char* otherwise) {
    const char* value = ::getenv(variable);
    system.environment[variable] = value == nullptr ? std::nullopt : std::optional<std::string>(value);
    const std::string configured = value == nullptr ? otherwise : value;
    ::setenv(variable, "/dev/null", 1);
    return configured;
  };
  system.file = replace(X509_get_default_cert_file_env(), X509_get_default_cert_file());
  system.folder = replace(X509_get_default_cert_dir_env(), X509_get_default_cert_dir());
  spared() = std::move(system);
}

std::map<std::string, std::optional<std::string>> spared_environment() {
  return spared() ? spared()->environment : std::map<std::string, std::optional<std::string>>();
}

Status set_up_tls(SSL_CTX* context, const ClusterAccess& access, const ClientCertificate& certificate) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  if (access.ca_pem.empty() && access.ca_file.empty()) {
    trust_system(context);
  } else {
    const std::string pem = access.ca_pem.empty() ? read_small_file(access.ca_file).value_or("") : access.ca_pem;
    if (!trust_only(context, pem)) {
      return fail(ErrorCode::kInvalid, fmt::format("there is no CA certificate in {}",
                                                   access.ca_pem.empty() ? access.ca_file : "the configured CA"));
    }
  }
  return use_certificate(context, certificate);
}

Status check_certificate(const ClientCertificate& certificate) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
  return use_certificate(context.get(), certificate);
}

std::string handshake_failure(unsigned long code) {
  const char* reason = ERR_reason_error_string(code);
  const std::string_view said = reason == nullptr ? "no common protocol, or the peer hung up" : reason;
  if (said.find("certificate verify failed") != said.npos) {
    return "its certificate was not accepted: it is not signed by the configured CA, has expired, or is for another "
           "host name";
  }
  return fmt::format("the TLS handshake failed ({})", said);
}

}  // namespace lockstep::kube
