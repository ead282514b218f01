"""The cast: the engineers of the fictional company who write every text of the simulated world.

Owns the people. Their user names are plain ASCII and unique; their display names are not all Latin,
because real ones are not.
"""

from __future__ import annotations

from .model import Person

PEOPLE: tuple[Person, ...] = (
    Person("mira.holt", "Mira Holt"),
    Person("tobias.renn", "Tobias Renn"),
    Person("aoife.brannigan", "Aoife Brannigan"),
    Person("kenji.morita", "森田 健二"),
    Person("lucia.ferrer", "Lucía Ferrer"),
    Person("dmytro.kovalenko", "Дмитро Коваленко"),
    Person("priya.raman", "Priya Raman"),
    Person("jonas.lindqvist", "Jonas Lindqvist"),
    Person("hana.dvorak", "Hana Dvořáková"),
    Person("samuel.osei", "Samuel Osei"),
    Person("yara.haddad", "يارا حداد"),
    Person("wei.zhang", "张伟"),
    Person("greta.maas", "Greta Maas"),
    Person("felix.okafor", "Felix Okafor"),
    Person("ines.carvalho", "Inês Carvalho"),
    Person("noor.vandijk", "Noor van Dijk"),
    Person("elif.aydin", "Elif Aydın"),
    Person("callum.reid", "Callum Reid"),
    Person("minseo.park", "박민서"),
    Person("pavlos.nikolaou", "Παύλος Νικολάου"),
    Person("rosa.delgado", "Rosa Delgado"),
    Person("arjun.mehta", "Arjun Mehta"),
    Person("signe.bakke", "Signe Bakke"),
    Person("theo.marchand", "Théo Marchand"),
)
