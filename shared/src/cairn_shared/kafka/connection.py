"""How producer, consumer and admin reach the broker. Names as in librdkafka's CONFIGURATION.md."""

from __future__ import annotations

from cairn_shared.settings import KafkaSettings


def connection(settings: KafkaSettings) -> dict[str, str]:
    """Addresses, TLS and SASL. A broker's certificate is always checked, its name included."""
    config = {
        "bootstrap.servers": settings.kafka_bootstrap_servers,
        "security.protocol": settings.kafka_security_protocol,
    }
    protocol, mechanism = settings.kafka_security_protocol, settings.kafka_sasl_mechanism
    optional: dict[str, str | None] = {}
    if protocol.endswith("SSL"):
        password = settings.kafka_ssl_key_password
        optional |= {
            "ssl.ca.location": settings.kafka_ssl_ca,
            "ssl.certificate.location": settings.kafka_ssl_certificate,
            "ssl.key.location": settings.kafka_ssl_key,
            "ssl.key.password": password.get_secret_value() if password else None,
            "ssl.endpoint.identification.algorithm": "https",
        }
    if protocol.startswith("SASL"):
        secret = settings.kafka_sasl_password.get_secret_value() if settings.kafka_sasl_password else None
        optional["sasl.mechanism"] = mechanism
        if mechanism == "OAUTHBEARER":
            optional |= {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": settings.kafka_sasl_username,
                "sasl.oauthbearer.client.secret": secret,
                "sasl.oauthbearer.token.endpoint.url": settings.kafka_oauth_token_url,
                "sasl.oauthbearer.scope": settings.kafka_oauth_scope,
            }
        else:
            optional |= {"sasl.username": settings.kafka_sasl_username, "sasl.password": secret}
    return config | {name: value for name, value in optional.items() if value is not None}
