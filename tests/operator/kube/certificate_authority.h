// A certificate authority for one test run, made by OpenSSL: nothing secret lies in the repository, nothing expires.
#pragma once

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <memory>
#include <stdexcept>
#include <string>

namespace lockstep::kube::testing {

struct CertificateAndKey {
  std::string certificate_pem, key_pem;
};

class TestAuthority {
 public:
  explicit TestAuthority(const std::string& name) : key_(EVP_EC_gen("P-256"), &EVP_PKEY_free) {
    certificate_ = make(name, "", key_.get(), nullptr);
  }
  std::string certificate_pem() const { return pem(certificate_.get()); }
  // `names` as in an OpenSSL configuration: "DNS:localhost,IP:127.0.0.1".
  CertificateAndKey issue(const std::string& names) const {
    const Key key(EVP_EC_gen("P-256"), &EVP_PKEY_free);
    const Certificate certificate = make("server", names, key.get(), this);
    BIO* bio = BIO_new(BIO_s_mem());
    PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    return {pem(certificate.get()), drained(bio)};
  }
  // A server context that shows a certificate for `names`, and with `verify_clients` asks clients for one of this
  // authority.
  std::shared_ptr<SSL_CTX> server_context(const std::string& names, bool verify_clients = false) const {
    const auto pair = issue(names);
    std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free);
    BIO* certificate_bio = BIO_new_mem_buf(pair.certificate_pem.data(), -1);
    X509* certificate = PEM_read_bio_X509(certificate_bio, nullptr, nullptr, nullptr);
    BIO* key_bio = BIO_new_mem_buf(pair.key_pem.data(), -1);
    EVP_PKEY* key = PEM_read_bio_PrivateKey(key_bio, nullptr, nullptr, nullptr);
    if (SSL_CTX_use_certificate(context.get(), certificate) != 1 || SSL_CTX_use_PrivateKey(context.get(), key) != 1) {
      throw std::runtime_error("no server certificate");
    }
    X509_free(certificate);
    EVP_PKEY_free(key);
    BIO_free(certificate_bio);
    BIO_free(key_bio);
    if (verify_clients) {
      SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
      X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), certificate_.get());
    }
    return context;
  }

 private:
  using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
  using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

  static void extend(X509* certificate, X509* issuer, int id, const std::string& value) {
    X509V3_CTX context{};
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str());
    if (extension == nullptr) throw std::runtime_error("bad extension " + value);
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
  }
  static Certificate make(const std::string& name, const std::string& names, EVP_PKEY* key,
                          const TestAuthority* issuer) {
    static int serial = 1;
    Certificate certificate(X509_new(), &X509_free);
    X509_set_version(certificate.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
    X509_set_pubkey(certificate.get(), key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509* signer = issuer == nullptr ? certificate.get() : issuer->certificate_.get();
    X509_set_issuer_name(certificate.get(), X509_get_subject_name(signer));
    extend(certificate.get(), signer, NID_basic_constraints, issuer == nullptr ? "critical,CA:TRUE" : "CA:FALSE");
    if (!names.empty()) extend(certificate.get(), signer, NID_subject_alt_name, names);
    X509_sign(certificate.get(), issuer == nullptr ? key : issuer->key_.get(), EVP_sha256());
    return certificate;
  }
  static std::string pem(X509* certificate) {
    BIO* bio = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(bio, certificate);
    return drained(bio);
  }
  static std::string drained(BIO* bio) {
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);
    std::string text(data, static_cast<std::size_t>(size));
    BIO_free(bio);
    return text;
  }

  Key key_;
  Certificate certificate_{nullptr, &X509_free};
};

}  // namespace lockstep::kube::testing
