"""The setting: the customers, ports, carriers and repositories of Harborline, the fictional product.

Owns the names that fill the slots of the stories, and which repository is about which component.
Every customer and host is invented; addresses end in `.example`.
"""

from __future__ import annotations

from types import MappingProxyType

SITE = "https://engineering.harborline.example"

CUSTOMERS: tuple[str, ...] = (
    "Northgate Freight",
    "Bluewave Lines",
    "Castell Cold Chain",
    "Orinoco Traders",
    "Silt & Sons",
    "Meridian Grain",
    "Halden Timber",
    "Kestrel Forwarding",
    "Pacific Arc",
    "Baltia Steel",
    "Tamarind Foods",
    "Lodestar Logistics",
    "Vega Automotive",
    "Copperline",
    "Juniper Retail",
    "Sakura Parts",
    "Fjordway",
    "Atlas Reefer",
    "Ostrava Glass",
    "Quayside Spirits",
    "Delta Agro",
    "Granite Paper",
    "Monsoon Textiles",
    "Ironbridge Chemicals",
)
PORTS: tuple[str, ...] = (
    "Rotterdam",
    "Antwerp",
    "Hamburg",
    "Valencia",
    "Piraeus",
    "Gdańsk",
    "Felixstowe",
    "Singapore",
    "Busan",
    "Yokohama",
    "Santos",
    "Callao",
    "Durban",
    "Tema",
    "Mombasa",
    "Oakland",
    "Savannah",
    "Halifax",
    "Jebel Ali",
    "Mundra",
    "Colombo",
    "Melbourne",
    "Algeciras",
    "Le Havre",
)
REGIONS: tuple[str, ...] = (
    "eu-west",
    "eu-north",
    "us-east",
    "us-west",
    "ap-south",
    "ap-east",
    "sa-east",
    "me-1",
)
CARRIERS: tuple[str, ...] = (
    "Norsea",
    "Tri-Ocean",
    "Hanjin Blue",
    "Corvus",
    "Albatros",
    "SeaSpan",
    "Polaris",
    "Evermoor",
)

# Which components a repository is about; the nested groups are deliberate.
PROJECTS: MappingProxyType[str, tuple[str, ...]] = MappingProxyType(
    {
        "harborline/platform/ledger": ("ledger",),
        "harborline/platform/tracking": ("tracking",),
        "harborline/platform/events": ("events",),
        "harborline/platform/port-calls": ("portcalls",),
        "harborline/commerce/tariff-engine": ("tariff",),
        "harborline/commerce/billing": ("billing",),
        "harborline/compliance/customs/documents": ("customs",),
        "harborline/edge/webhooks": ("webhooks",),
        "harborline/edge/gateway": ("gateway",),
        "harborline/apps/mobile/driver-app": ("driver-app",),
        "harborline/apps/console": ("console",),
        "harborline/infra/deploy": ("infra",),
        "harborline/handbook": (),
    }
)
