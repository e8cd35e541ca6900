CREATE TABLE kappasharp_schema (
	version INTEGER NOT NULL
);
CREATE TABLE kappasharp_studies (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	uid VARCHAR(32) NOT NULL,
	name TEXT NOT NULL,
	created VARCHAR(40) NOT NULL,
	definition TEXT NOT NULL,
	digest VARCHAR(64) DEFAULT '' NOT NULL,
	events INTEGER DEFAULT '0' NOT NULL,
	head VARCHAR(64) DEFAULT '' NOT NULL,
	unprotected INTEGER,
	UNIQUE (uid),
	UNIQUE (name)
);
CREATE TABLE kappasharp_events (
	study INTEGER NOT NULL,
	number INTEGER NOT NULL,
	kind VARCHAR(20) NOT NULL,
	voter TEXT NOT NULL,
	time VARCHAR(40) NOT NULL,
	body TEXT NOT NULL,
	chain VARCHAR(64) NOT NULL,
	PRIMARY KEY (study, number),
	FOREIGN KEY(study) REFERENCES kappasharp_studies (id) ON DELETE CASCADE
);
CREATE TABLE kappasharp_invites (
	id VARCHAR(8) NOT NULL,
	study INTEGER NOT NULL,
	role VARCHAR(10) NOT NULL,
	digest VARCHAR(64) NOT NULL,
	created VARCHAR(40) NOT NULL,
	revoked VARCHAR(40),
	PRIMARY KEY (id),
	FOREIGN KEY(study) REFERENCES kappasharp_studies (id) ON DELETE CASCADE,
	UNIQUE (digest)
);
CREATE TABLE kappasharp_seats (
	id VARCHAR(8) NOT NULL,
	study INTEGER NOT NULL,
	invite VARCHAR(8) NOT NULL,
	digest VARCHAR(64) NOT NULL,
	name TEXT,
	taken TEXT,
	created VARCHAR(40) NOT NULL,
	removed VARCHAR(40),
	PRIMARY KEY (id),
	UNIQUE (study, taken),
	FOREIGN KEY(study) REFERENCES kappasharp_studies (id) ON DELETE CASCADE,
	FOREIGN KEY(invite) REFERENCES kappasharp_invites (id) ON DELETE CASCADE,
	UNIQUE (digest)
);
