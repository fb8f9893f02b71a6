BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('66bd9c5604d5');
CREATE TABLE allocations (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36) NOT NULL, 
	name VARCHAR(255), 
	node_id INTEGER, 
	state VARCHAR(15) NOT NULL, 
	owner VARCHAR(255), 
	last_error TEXT, 
	resource_class VARCHAR(80), 
	traits TEXT, 
	candidate_nodes TEXT, 
	extra TEXT, 
	conductor_affinity INTEGER, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_allocations0name UNIQUE (name), 
	CONSTRAINT uniq_allocations0uuid UNIQUE (uuid)
);
INSERT INTO "allocations" VALUES(1,'00000601-0000-4000-8000-000000000000','mail',6,'active',NULL,NULL,'metal','["CUSTOM_UNIT_6"]','["00000006-0000-4000-8000-000000000000"]','{"a": "b"}',1,'1.1','2026-11-30 15:37:28.698832','2026-11-30 15:37:28.775849');
INSERT INTO "allocations" VALUES(2,'00000603-0000-4000-8000-000000000000','too-large',NULL,'error',NULL,'Failed to process allocation 00000603-0000-4000-8000-000000000000: no available nodes match the resource class huge.','huge','[]','[]','{}',1,'1.1','2026-11-30 15:37:28.898139','2026-11-30 15:37:28.934648');
INSERT INTO "allocations" VALUES(3,'00000604-0000-4000-8000-000000000000','searching',NULL,'allocating',NULL,NULL,'huge','[]','[]','{}',1,'1.1','2026-11-30 15:37:29.093014','2026-11-30 15:37:29.129784');
INSERT INTO "allocations" VALUES(4,'00000602-0000-4000-8000-000000000000','backfilled',4,'active',NULL,NULL,'metal','[]','[]','{}',1,'1.1','2026-11-30 15:37:30.550080','2026-11-30 15:37:30.574011');
CREATE TABLE bios_settings (
	node_id INTEGER NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	value TEXT, 
	attribute_type VARCHAR(255), 
	allowable_values TEXT, 
	lower_bound INTEGER, 
	max_length INTEGER, 
	min_length INTEGER, 
	read_only BOOLEAN, 
	reset_required BOOLEAN, 
	"unique" BOOLEAN, 
	upper_bound INTEGER, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (node_id, name), 
	FOREIGN KEY(node_id) REFERENCES nodes (id)
);
INSERT INTO "bios_settings" VALUES(2,'ProcVirtualization','Enabled','Enumeration','["Enabled", "Disabled"]',NULL,NULL,NULL,0,1,NULL,NULL,'1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "bios_settings" VALUES(2,'NumCores','16','Integer',NULL,0,NULL,NULL,0,NULL,0,64,'1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "bios_settings" VALUES(2,'SetupPassword','pLaNtEd-bios-word','Password',NULL,NULL,32,0,NULL,NULL,NULL,NULL,'1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "bios_settings" VALUES(2,'AssetTag',NULL,'String',NULL,NULL,63,NULL,NULL,NULL,NULL,NULL,'1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "bios_settings" VALUES(3,'ProcVirtualization','Enabled','Enumeration','["Enabled", "Disabled"]',NULL,NULL,NULL,0,1,NULL,NULL,'1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "bios_settings" VALUES(3,'NumCores','16','Integer',NULL,0,NULL,NULL,0,NULL,0,64,'1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "bios_settings" VALUES(3,'SetupPassword','pLaNtEd-bios-word','Password',NULL,NULL,32,0,NULL,NULL,NULL,NULL,'1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "bios_settings" VALUES(3,'AssetTag',NULL,'String',NULL,NULL,63,NULL,NULL,NULL,NULL,NULL,'1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "bios_settings" VALUES(4,'ProcVirtualization','Enabled','Enumeration','["Enabled", "Disabled"]',NULL,NULL,NULL,0,1,NULL,NULL,'1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "bios_settings" VALUES(4,'NumCores','16','Integer',NULL,0,NULL,NULL,0,NULL,0,64,'1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "bios_settings" VALUES(4,'SetupPassword','pLaNtEd-bios-word','Password',NULL,NULL,32,0,NULL,NULL,NULL,NULL,'1.1','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "bios_settings" VALUES(4,'AssetTag',NULL,'String',NULL,NULL,63,NULL,NULL,NULL,NULL,NULL,'1.1','2026-03-01 12:00:00.000000',NULL);
CREATE TABLE chassis (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36), 
	extra TEXT, 
	description VARCHAR(255), 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_chassis0uuid UNIQUE (uuid)
);
INSERT INTO "chassis" VALUES(1,'00000500-0000-4000-8000-000000000000','{}','Rack 7','1.3','2026-11-30 15:37:21.990482',NULL);
CREATE TABLE conductor_hardware_interfaces (
	id INTEGER NOT NULL, 
	conductor_id INTEGER NOT NULL, 
	hardware_type VARCHAR(255) NOT NULL, 
	interface_type VARCHAR(16) NOT NULL, 
	interface_name VARCHAR(255) NOT NULL, 
	"default" BOOLEAN NOT NULL, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_conductorhardwareinterfaces0 UNIQUE (conductor_id, hardware_type, interface_type, interface_name), 
	FOREIGN KEY(conductor_id) REFERENCES conductors (id)
);
CREATE TABLE conductors (
	id INTEGER NOT NULL, 
	hostname VARCHAR(255) NOT NULL, 
	drivers TEXT, 
	online BOOLEAN, 
	conductor_group VARCHAR(255) DEFAULT '' NOT NULL, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_conductors0hostname UNIQUE (hostname)
);
INSERT INTO "conductors" VALUES(1,'c1','["fake-hardware", "ipmi", "redfish"]',0,'','1.4','2026-11-30 15:37:21.663983','2026-11-30 15:37:30.603403');
CREATE TABLE deploy_template_steps (
	id INTEGER NOT NULL, 
	deploy_template_id INTEGER NOT NULL, 
	interface VARCHAR(255) NOT NULL, 
	step VARCHAR(255) NOT NULL, 
	args TEXT NOT NULL, 
	priority INTEGER NOT NULL, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	FOREIGN KEY(deploy_template_id) REFERENCES deploy_templates (id)
);
INSERT INTO "deploy_template_steps" VALUES(1,1,'deploy','deploy','{"settings": {"admin_password": "pLaNtEd-template-word"}}',80,NULL,'2026-11-30 15:37:22.015504',NULL);
INSERT INTO "deploy_template_steps" VALUES(2,1,'bios','apply_configuration','{"admin_password": "pLaNtEd-template-word"}',150,NULL,'2026-11-30 15:37:22.015515',NULL);
CREATE TABLE deploy_templates (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36), 
	name VARCHAR(255) NOT NULL, 
	extra TEXT, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_deploytemplates0uuid UNIQUE (uuid), 
	CONSTRAINT uniq_deploytemplates0name UNIQUE (name)
);
INSERT INTO "deploy_templates" VALUES(1,'00000701-0000-4000-8000-000000000000','CUSTOM_RACK_7','{"t": 1}','1.1','2026-11-30 15:37:22.012889',NULL);
CREATE TABLE firmware_information (
	id INTEGER NOT NULL, 
	node_id INTEGER NOT NULL, 
	component VARCHAR(255) NOT NULL, 
	initial_version VARCHAR(255) NOT NULL, 
	current_version VARCHAR(255), 
	last_version_flashed VARCHAR(255), 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_nodecomponent0node_id0component UNIQUE (node_id, component), 
	FOREIGN KEY(node_id) REFERENCES nodes (id)
);
INSERT INTO "firmware_information" VALUES(1,2,'bios','1.0','1.1','1.1','1.0','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "firmware_information" VALUES(2,2,'bmc','1.0','1.1','1.1','1.0','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "firmware_information" VALUES(3,3,'bios','1.0','1.1','1.1','1.0','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "firmware_information" VALUES(4,3,'bmc','1.0','1.1','1.1','1.0','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "firmware_information" VALUES(5,4,'bios','1.0','1.1','1.1','1.0','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "firmware_information" VALUES(6,4,'bmc','1.0','1.1','1.1','1.0','2026-03-01 12:00:00.000000',NULL);
CREATE TABLE node_history (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36) NOT NULL, 
	conductor VARCHAR(255), 
	event_type VARCHAR(255), 
	severity VARCHAR(255), 
	event TEXT, 
	user VARCHAR(64), 
	node_id INTEGER, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_history0uuid UNIQUE (uuid), 
	FOREIGN KEY(node_id) REFERENCES nodes (id)
);
INSERT INTO "node_history" VALUES(1,'00100100-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 0 of r7-01: größer','operator',1,'1.0','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_history" VALUES(2,'00100101-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 1 of r7-01: größer','operator',1,'1.0','2026-03-01 12:01:00.000000',NULL);
INSERT INTO "node_history" VALUES(3,'00100102-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 2 of r7-01: größer','operator',1,'1.0','2026-03-01 12:02:00.000000',NULL);
INSERT INTO "node_history" VALUES(4,'00100103-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 3 of r7-01: größer','operator',1,'1.0','2026-03-01 12:03:00.000000',NULL);
INSERT INTO "node_history" VALUES(5,'00100200-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 0 of r7-02: größer','operator',2,'1.0','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_history" VALUES(6,'00100201-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 1 of r7-02: größer','operator',2,'1.0','2026-03-01 12:01:00.000000',NULL);
INSERT INTO "node_history" VALUES(7,'00100202-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 2 of r7-02: größer','operator',2,'1.0','2026-03-01 12:02:00.000000',NULL);
INSERT INTO "node_history" VALUES(8,'00100203-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 3 of r7-02: größer','operator',2,'1.0','2026-03-01 12:03:00.000000',NULL);
INSERT INTO "node_history" VALUES(9,'00100300-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 0 of r7-03: größer','operator',3,'1.0','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_history" VALUES(10,'00100301-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 1 of r7-03: größer','operator',3,'1.0','2026-03-01 12:01:00.000000',NULL);
INSERT INTO "node_history" VALUES(11,'00100302-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 2 of r7-03: größer','operator',3,'1.0','2026-03-01 12:02:00.000000',NULL);
INSERT INTO "node_history" VALUES(12,'00100303-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 3 of r7-03: größer','operator',3,'1.0','2026-03-01 12:03:00.000000',NULL);
INSERT INTO "node_history" VALUES(13,'00100400-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 0 of r7-04: größer','operator',4,'1.0','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_history" VALUES(14,'00100401-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 1 of r7-04: größer','operator',4,'1.0','2026-03-01 12:01:00.000000',NULL);
INSERT INTO "node_history" VALUES(15,'00100402-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 2 of r7-04: größer','operator',4,'1.0','2026-03-01 12:02:00.000000',NULL);
INSERT INTO "node_history" VALUES(16,'00100403-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 3 of r7-04: größer','operator',4,'1.0','2026-03-01 12:03:00.000000',NULL);
INSERT INTO "node_history" VALUES(17,'00100500-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 0 of r7-05: größer','operator',5,'1.0','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_history" VALUES(18,'00100501-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 1 of r7-05: größer','operator',5,'1.0','2026-03-01 12:01:00.000000',NULL);
INSERT INTO "node_history" VALUES(19,'00100502-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 2 of r7-05: größer','operator',5,'1.0','2026-03-01 12:02:00.000000',NULL);
INSERT INTO "node_history" VALUES(20,'00100503-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 3 of r7-05: größer','operator',5,'1.0','2026-03-01 12:03:00.000000',NULL);
INSERT INTO "node_history" VALUES(21,'00100600-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 0 of r7-06: größer','operator',6,'1.0','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_history" VALUES(22,'00100601-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 1 of r7-06: größer','operator',6,'1.0','2026-03-01 12:01:00.000000',NULL);
INSERT INTO "node_history" VALUES(23,'00100602-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 2 of r7-06: größer','operator',6,'1.0','2026-03-01 12:02:00.000000',NULL);
INSERT INTO "node_history" VALUES(24,'00100603-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 3 of r7-06: größer','operator',6,'1.0','2026-03-01 12:03:00.000000',NULL);
INSERT INTO "node_history" VALUES(25,'00100700-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 0 of r7-07: größer','operator',7,'1.0','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_history" VALUES(26,'00100701-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 1 of r7-07: größer','operator',7,'1.0','2026-03-01 12:01:00.000000',NULL);
INSERT INTO "node_history" VALUES(27,'00100702-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 2 of r7-07: größer','operator',7,'1.0','2026-03-01 12:02:00.000000',NULL);
INSERT INTO "node_history" VALUES(28,'00100703-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 3 of r7-07: größer','operator',7,'1.0','2026-03-01 12:03:00.000000',NULL);
INSERT INTO "node_history" VALUES(29,'00100800-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 0 of r7-08: größer','operator',8,'1.0','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_history" VALUES(30,'00100801-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 1 of r7-08: größer','operator',8,'1.0','2026-03-01 12:01:00.000000',NULL);
INSERT INTO "node_history" VALUES(31,'00100802-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 2 of r7-08: größer','operator',8,'1.0','2026-03-01 12:02:00.000000',NULL);
INSERT INTO "node_history" VALUES(32,'00100803-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 3 of r7-08: größer','operator',8,'1.0','2026-03-01 12:03:00.000000',NULL);
INSERT INTO "node_history" VALUES(33,'00100900-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 0 of r7-09: größer','operator',9,'1.0','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_history" VALUES(34,'00100901-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 1 of r7-09: größer','operator',9,'1.0','2026-03-01 12:01:00.000000',NULL);
INSERT INTO "node_history" VALUES(35,'00100902-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 2 of r7-09: größer','operator',9,'1.0','2026-03-01 12:02:00.000000',NULL);
INSERT INTO "node_history" VALUES(36,'00100903-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 3 of r7-09: größer','operator',9,'1.0','2026-03-01 12:03:00.000000',NULL);
INSERT INTO "node_history" VALUES(37,'00101000-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 0 of r7-10: größer','operator',10,'1.0','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_history" VALUES(38,'00101001-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 1 of r7-10: größer','operator',10,'1.0','2026-03-01 12:01:00.000000',NULL);
INSERT INTO "node_history" VALUES(39,'00101002-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 2 of r7-10: größer','operator',10,'1.0','2026-03-01 12:02:00.000000',NULL);
INSERT INTO "node_history" VALUES(40,'00101003-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 3 of r7-10: größer','operator',10,'1.0','2026-03-01 12:03:00.000000',NULL);
INSERT INTO "node_history" VALUES(41,'00101100-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 0 of r7-11: größer','operator',11,'1.0','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_history" VALUES(42,'00101101-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 1 of r7-11: größer','operator',11,'1.0','2026-03-01 12:01:00.000000',NULL);
INSERT INTO "node_history" VALUES(43,'00101102-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 2 of r7-11: größer','operator',11,'1.0','2026-03-01 12:02:00.000000',NULL);
INSERT INTO "node_history" VALUES(44,'00101103-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 3 of r7-11: größer','operator',11,'1.0','2026-03-01 12:03:00.000000',NULL);
INSERT INTO "node_history" VALUES(45,'00101200-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 0 of r7-12: größer','operator',12,'1.0','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_history" VALUES(46,'00101201-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 1 of r7-12: größer','operator',12,'1.0','2026-03-01 12:01:00.000000',NULL);
INSERT INTO "node_history" VALUES(47,'00101202-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 2 of r7-12: größer','operator',12,'1.0','2026-03-01 12:02:00.000000',NULL);
INSERT INTO "node_history" VALUES(48,'00101203-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 3 of r7-12: größer','operator',12,'1.0','2026-03-01 12:03:00.000000',NULL);
INSERT INTO "node_history" VALUES(49,'00101300-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 0 of r7-13: größer','operator',13,'1.0','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_history" VALUES(50,'00101301-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 1 of r7-13: größer','operator',13,'1.0','2026-03-01 12:01:00.000000',NULL);
INSERT INTO "node_history" VALUES(51,'00101302-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 2 of r7-13: größer','operator',13,'1.0','2026-03-01 12:02:00.000000',NULL);
INSERT INTO "node_history" VALUES(52,'00101303-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 3 of r7-13: größer','operator',13,'1.0','2026-03-01 12:03:00.000000',NULL);
INSERT INTO "node_history" VALUES(53,'00101400-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 0 of r7-14: größer','operator',14,'1.0','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_history" VALUES(54,'00101401-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 1 of r7-14: größer','operator',14,'1.0','2026-03-01 12:01:00.000000',NULL);
INSERT INTO "node_history" VALUES(55,'00101402-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 2 of r7-14: größer','operator',14,'1.0','2026-03-01 12:02:00.000000',NULL);
INSERT INTO "node_history" VALUES(56,'00101403-0000-4000-8000-000000000000','c1','provisioning','ERROR','Entry 3 of r7-14: größer','operator',14,'1.0','2026-03-01 12:03:00.000000',NULL);
CREATE TABLE node_inventory (
	id INTEGER NOT NULL, 
	inventory_data TEXT, 
	plugin_data TEXT, 
	node_id INTEGER, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	FOREIGN KEY(node_id) REFERENCES nodes (id)
);
INSERT INTO "node_inventory" VALUES(1,'{"interfaces": [{"name": "eth0", "mac_address": "52:54:00:07:02:00"}, {"name": "eth1", "mac_address": "52:54:00:07:02:01"}], "cpu": {"count": 32, "architecture": "x86_64", "flags": ["vmx", "aes"]}, "disks": [{"name": "/dev/nvme0n1", "size": 960197124096, "serial": "S00002"}], "system_vendor": {"manufacturer": "Dell Inc.", "product_name": "R660", "serial_number": "X"}}','{"lldp_raw": {"eth0": [[1, "04"]]}}',2,'1.0','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_inventory" VALUES(2,'{"interfaces": [{"name": "eth0", "mac_address": "52:54:00:07:03:00"}, {"name": "eth1", "mac_address": "52:54:00:07:03:01"}], "cpu": {"count": 32, "architecture": "x86_64", "flags": ["vmx", "aes"]}, "disks": [{"name": "/dev/nvme0n1", "size": 960197124096, "serial": "S00003"}], "system_vendor": {"manufacturer": "Dell Inc.", "product_name": "R660", "serial_number": "X"}}','{"lldp_raw": {"eth0": [[1, "04"]]}}',3,'1.0','2026-03-01 12:00:00.000000',NULL);
INSERT INTO "node_inventory" VALUES(3,'{"interfaces": [{"name": "eth0", "mac_address": "52:54:00:07:04:00"}, {"name": "eth1", "mac_address": "52:54:00:07:04:01"}], "cpu": {"count": 32, "architecture": "x86_64", "flags": ["vmx", "aes"]}, "disks": [{"name": "/dev/nvme0n1", "size": 960197124096, "serial": "S00004"}], "system_vendor": {"manufacturer": "Dell Inc.", "product_name": "R660", "serial_number": "X"}}','{"lldp_raw": {"eth0": [[1, "04"]]}}',4,'1.0','2026-03-01 12:00:00.000000',NULL);
CREATE TABLE node_tags (
	node_id INTEGER NOT NULL, 
	tag VARCHAR(255) NOT NULL, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (node_id, tag), 
	FOREIGN KEY(node_id) REFERENCES nodes (id)
);
INSERT INTO "node_tags" VALUES(1,'old',NULL,'2026-03-01 12:00:00.000000',NULL);
CREATE TABLE node_traits (
	node_id INTEGER NOT NULL, 
	trait VARCHAR(255) NOT NULL, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (node_id, trait), 
	FOREIGN KEY(node_id) REFERENCES nodes (id)
);
INSERT INTO "node_traits" VALUES(1,'CUSTOM_RACK_7','1.0','2026-11-30 15:37:22.440737',NULL);
INSERT INTO "node_traits" VALUES(1,'HW_CPU_X86_VMX','1.0','2026-11-30 15:37:22.440748',NULL);
INSERT INTO "node_traits" VALUES(1,'CUSTOM_UNIT_1','1.0','2026-11-30 15:37:22.440750',NULL);
INSERT INTO "node_traits" VALUES(1,'CUSTOM_RB','1.0','2026-11-30 15:37:22.440753',NULL);
INSERT INTO "node_traits" VALUES(2,'CUSTOM_RACK_7','1.0','2026-11-30 15:37:22.834208',NULL);
INSERT INTO "node_traits" VALUES(2,'CUSTOM_UNIT_2','1.0','2026-11-30 15:37:22.834219',NULL);
INSERT INTO "node_traits" VALUES(2,'HW_CPU_X86_VMX','1.0','2026-11-30 15:37:22.834222',NULL);
INSERT INTO "node_traits" VALUES(2,'CUSTOM_RB','1.0','2026-11-30 15:37:22.834224',NULL);
INSERT INTO "node_traits" VALUES(3,'CUSTOM_RACK_7','1.0','2026-11-30 15:37:23.238725',NULL);
INSERT INTO "node_traits" VALUES(3,'CUSTOM_UNIT_3','1.0','2026-11-30 15:37:23.238736',NULL);
INSERT INTO "node_traits" VALUES(3,'HW_CPU_X86_VMX','1.0','2026-11-30 15:37:23.238739',NULL);
INSERT INTO "node_traits" VALUES(3,'CUSTOM_RB','1.0','2026-11-30 15:37:23.238741',NULL);
INSERT INTO "node_traits" VALUES(4,'CUSTOM_RACK_7','1.0','2026-11-30 15:37:23.538819',NULL);
INSERT INTO "node_traits" VALUES(4,'HW_CPU_X86_VMX','1.0','2026-11-30 15:37:23.538829',NULL);
INSERT INTO "node_traits" VALUES(4,'CUSTOM_UNIT_4','1.0','2026-11-30 15:37:23.538833',NULL);
INSERT INTO "node_traits" VALUES(4,'CUSTOM_RB','1.0','2026-11-30 15:37:23.538835',NULL);
INSERT INTO "node_traits" VALUES(5,'CUSTOM_UNIT_5','1.0','2026-11-30 15:37:23.918342',NULL);
INSERT INTO "node_traits" VALUES(5,'CUSTOM_RACK_7','1.0','2026-11-30 15:37:23.918353',NULL);
INSERT INTO "node_traits" VALUES(5,'HW_CPU_X86_VMX','1.0','2026-11-30 15:37:23.918356',NULL);
INSERT INTO "node_traits" VALUES(5,'CUSTOM_RB','1.0','2026-11-30 15:37:23.918358',NULL);
INSERT INTO "node_traits" VALUES(6,'CUSTOM_RACK_7','1.0','2026-11-30 15:37:24.145346',NULL);
INSERT INTO "node_traits" VALUES(6,'CUSTOM_UNIT_6','1.0','2026-11-30 15:37:24.145360',NULL);
INSERT INTO "node_traits" VALUES(6,'HW_CPU_X86_VMX','1.0','2026-11-30 15:37:24.145363',NULL);
INSERT INTO "node_traits" VALUES(6,'CUSTOM_RB','1.0','2026-11-30 15:37:24.145365',NULL);
INSERT INTO "node_traits" VALUES(7,'CUSTOM_RACK_7','1.0','2026-11-30 15:37:24.499196',NULL);
INSERT INTO "node_traits" VALUES(7,'HW_CPU_X86_VMX','1.0','2026-11-30 15:37:24.499208',NULL);
INSERT INTO "node_traits" VALUES(7,'CUSTOM_RB','1.0','2026-11-30 15:37:24.499211',NULL);
INSERT INTO "node_traits" VALUES(7,'CUSTOM_UNIT_7','1.0','2026-11-30 15:37:24.499213',NULL);
INSERT INTO "node_traits" VALUES(8,'CUSTOM_RACK_7','1.0','2026-11-30 15:37:24.667297',NULL);
INSERT INTO "node_traits" VALUES(8,'HW_CPU_X86_VMX','1.0','2026-11-30 15:37:24.667309',NULL);
INSERT INTO "node_traits" VALUES(8,'CUSTOM_RB','1.0','2026-11-30 15:37:24.667311',NULL);
INSERT INTO "node_traits" VALUES(8,'CUSTOM_UNIT_8','1.0','2026-11-30 15:37:24.667314',NULL);
INSERT INTO "node_traits" VALUES(9,'CUSTOM_RACK_7','1.0','2026-11-30 15:37:24.863598',NULL);
INSERT INTO "node_traits" VALUES(9,'HW_CPU_X86_VMX','1.0','2026-11-30 15:37:24.863609',NULL);
INSERT INTO "node_traits" VALUES(9,'CUSTOM_UNIT_9','1.0','2026-11-30 15:37:24.863612',NULL);
INSERT INTO "node_traits" VALUES(9,'CUSTOM_RB','1.0','2026-11-30 15:37:24.863614',NULL);
INSERT INTO "node_traits" VALUES(10,'CUSTOM_RACK_7','1.0','2026-11-30 15:37:25.027149',NULL);
INSERT INTO "node_traits" VALUES(10,'CUSTOM_UNIT_10','1.0','2026-11-30 15:37:25.027161',NULL);
INSERT INTO "node_traits" VALUES(10,'HW_CPU_X86_VMX','1.0','2026-11-30 15:37:25.027164',NULL);
INSERT INTO "node_traits" VALUES(10,'CUSTOM_RB','1.0','2026-11-30 15:37:25.027166',NULL);
INSERT INTO "node_traits" VALUES(11,'CUSTOM_RACK_7','1.0','2026-11-30 15:37:25.185483',NULL);
INSERT INTO "node_traits" VALUES(11,'CUSTOM_UNIT_11','1.0','2026-11-30 15:37:25.185495',NULL);
INSERT INTO "node_traits" VALUES(11,'HW_CPU_X86_VMX','1.0','2026-11-30 15:37:25.185498',NULL);
INSERT INTO "node_traits" VALUES(11,'CUSTOM_RB','1.0','2026-11-30 15:37:25.185500',NULL);
INSERT INTO "node_traits" VALUES(12,'CUSTOM_RACK_7','1.0','2026-11-30 15:37:25.332370',NULL);
INSERT INTO "node_traits" VALUES(12,'HW_CPU_X86_VMX','1.0','2026-11-30 15:37:25.332382',NULL);
INSERT INTO "node_traits" VALUES(12,'CUSTOM_RB','1.0','2026-11-30 15:37:25.332385',NULL);
INSERT INTO "node_traits" VALUES(12,'CUSTOM_UNIT_12','1.0','2026-11-30 15:37:25.332388',NULL);
INSERT INTO "node_traits" VALUES(13,'CUSTOM_UNIT_13','1.0','2026-11-30 15:37:25.497499',NULL);
INSERT INTO "node_traits" VALUES(13,'CUSTOM_RACK_7','1.0','2026-11-30 15:37:25.497511',NULL);
INSERT INTO "node_traits" VALUES(13,'HW_CPU_X86_VMX','1.0','2026-11-30 15:37:25.497514',NULL);
INSERT INTO "node_traits" VALUES(13,'CUSTOM_RB','1.0','2026-11-30 15:37:25.497516',NULL);
INSERT INTO "node_traits" VALUES(14,'CUSTOM_RACK_7','1.0','2026-11-30 15:37:25.705286',NULL);
INSERT INTO "node_traits" VALUES(14,'CUSTOM_UNIT_14','1.0','2026-11-30 15:37:25.705299',NULL);
INSERT INTO "node_traits" VALUES(14,'HW_CPU_X86_VMX','1.0','2026-11-30 15:37:25.705302',NULL);
INSERT INTO "node_traits" VALUES(14,'CUSTOM_RB','1.0','2026-11-30 15:37:25.705305',NULL);
CREATE TABLE nodes (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36), 
	instance_uuid VARCHAR(36), 
	name VARCHAR(255), 
	chassis_id INTEGER, 
	power_state VARCHAR(15), 
	target_power_state VARCHAR(15), 
	provision_state VARCHAR(15), 
	target_provision_state VARCHAR(15), 
	provision_updated_at DATETIME, 
	last_error TEXT, 
	instance_info TEXT, 
	properties TEXT, 
	driver VARCHAR(255), 
	driver_info TEXT, 
	driver_internal_info TEXT, 
	clean_step TEXT, 
	deploy_step TEXT, 
	resource_class VARCHAR(80), 
	raid_config TEXT, 
	target_raid_config TEXT, 
	reservation VARCHAR(255), 
	conductor_affinity INTEGER, 
	conductor_group VARCHAR(255) DEFAULT '' NOT NULL, 
	maintenance BOOLEAN, 
	maintenance_reason TEXT, 
	fault VARCHAR(255), 
	console_enabled BOOLEAN, 
	inspection_finished_at DATETIME, 
	inspection_started_at DATETIME, 
	extra TEXT, 
	automated_clean BOOLEAN, 
	protected BOOLEAN DEFAULT 0 NOT NULL, 
	protected_reason TEXT, 
	owner VARCHAR(255), 
	lessee VARCHAR(255), 
	allocation_id INTEGER, 
	description TEXT, 
	bios_interface VARCHAR(255), 
	boot_interface VARCHAR(255), 
	console_interface VARCHAR(255), 
	deploy_interface VARCHAR(255), 
	firmware_interface VARCHAR(255), 
	inspect_interface VARCHAR(255), 
	management_interface VARCHAR(255), 
	network_interface VARCHAR(255), 
	raid_interface VARCHAR(255), 
	rescue_interface VARCHAR(255), 
	retired BOOLEAN DEFAULT 0, 
	retired_reason TEXT, 
	network_data TEXT, 
	storage_interface VARCHAR(255), 
	power_interface VARCHAR(255), 
	vendor_interface VARCHAR(255), 
	boot_mode VARCHAR(16), 
	secure_boot BOOLEAN, 
	shard VARCHAR(255), 
	parent_node VARCHAR(36), 
	service_step TEXT, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_nodes0uuid UNIQUE (uuid), 
	CONSTRAINT uniq_nodes0instance_uuid UNIQUE (instance_uuid), 
	CONSTRAINT uniq_nodes0name UNIQUE (name), 
	FOREIGN KEY(chassis_id) REFERENCES chassis (id), 
	CONSTRAINT nodes_conductor_affinity_fk FOREIGN KEY(conductor_affinity) REFERENCES conductors (id), 
	FOREIGN KEY(allocation_id) REFERENCES allocations (id)
);
INSERT INTO "nodes" VALUES(1,'00000001-0000-4000-8000-000000000000',NULL,'r7-01',1,'power off',NULL,'enroll',NULL,NULL,NULL,'{"image_source": "https://user:pLaNtEd-image-word@images.example.org/debian.raw", "image_checksum": "0000000000000000000000000000000000000000000000000000000000000000", "root_gb": 10, "configdrive": "https://config.example.org/drive"}','{"cpu_arch": "x86_64", "memory_mb": 65536, "capabilities": "a:b"}','fake-hardware','{"fake_password": "pLaNtEd-bmc-word", "note": "\u00fc"}','{}','{}','{}','metal','{"logical_disks": [{"size_gb": 100, "raid_level": "1"}]}','{}',NULL,NULL,'',0,NULL,NULL,0,NULL,NULL,'{"rack": 7, "unit": 1}',NULL,0,NULL,'0123456789abcdef0123456789abcdef',NULL,NULL,'Größe: eine Höheneinheit','fake','fake','fake','fake','fake','fake','fake','noop','fake','fake',0,NULL,NULL,'noop','fake','fake',NULL,NULL,NULL,NULL,'{}','1.40','2026-11-30 15:37:22.275467','2026-11-30 15:37:22.461985');
INSERT INTO "nodes" VALUES(2,'00000002-0000-4000-8000-000000000000',NULL,'r7-02',1,'power off',NULL,'manageable',NULL,'2026-11-30 15:37:26.813665',NULL,'{"image_source": "https://user:pLaNtEd-image-word@images.example.org/debian.raw", "image_checksum": "0000000000000000000000000000000000000000000000000000000000000000", "root_gb": 10, "configdrive": "https://config.example.org/drive"}','{"cpu_arch": "x86_64", "memory_mb": 65536, "capabilities": "a:b"}','redfish','{"redfish_address": "https://192.0.2.2", "redfish_system_id": "/redfish/v1/Systems/1", "redfish_username": "root", "redfish_password": "pLaNtEd-bmc-word", "redfish_verify_ca": false}','{}','{}','{}','metal','{"logical_disks": [{"size_gb": 100, "raid_level": "1"}]}','{}',NULL,NULL,'',1,'new fan',NULL,0,'2026-11-30 15:37:26.813680',NULL,'{"rack": 7, "unit": 2}',NULL,0,NULL,'0123456789abcdef0123456789abcdef',NULL,NULL,NULL,'redfish','redfish-virtual-media','no-console','direct','redfish','agent','redfish','noop','agent','no-rescue',0,NULL,'{}','noop','redfish','redfish',NULL,NULL,NULL,NULL,'{}','1.40','2026-11-30 15:37:22.714224','2026-11-30 15:37:26.847183');
INSERT INTO "nodes" VALUES(3,'00000003-0000-4000-8000-000000000000',NULL,'r7-03',1,'power off',NULL,'available',NULL,'2026-11-30 15:37:27.144815',NULL,'{"image_source": "https://user:pLaNtEd-image-word@images.example.org/debian.raw", "image_checksum": "0000000000000000000000000000000000000000000000000000000000000000", "root_gb": 10, "configdrive": "https://config.example.org/drive"}','{"cpu_arch": "x86_64", "memory_mb": 65536, "capabilities": "a:b"}','redfish','{"redfish_address": "https://192.0.2.3", "redfish_system_id": "/redfish/v1/Systems/1", "redfish_username": "root", "redfish_password": "pLaNtEd-bmc-word", "redfish_verify_ca": false}','{"clean_steps": null}','{}','{}','metal','{"logical_disks": [{"size_gb": 100, "raid_level": "1"}]}','{}',NULL,NULL,'',0,NULL,NULL,0,NULL,NULL,'{"rack": 7, "unit": 3}',0,0,NULL,'0123456789abcdef0123456789abcdef',NULL,NULL,NULL,'redfish','redfish-virtual-media','no-console','direct','redfish','agent','redfish','noop','agent','no-rescue',0,NULL,'{}','noop','redfish','redfish',NULL,NULL,'s1',NULL,'{}','1.40','2026-11-30 15:37:23.123299','2026-11-30 15:37:27.195580');
INSERT INTO "nodes" VALUES(4,'00000004-0000-4000-8000-000000000000','00000602-0000-4000-8000-000000000000','r7-04',1,'power on',NULL,'active',NULL,'2026-11-30 15:37:29.664998',NULL,'{"image_source": "https://user:pLaNtEd-image-word@images.example.org/debian.raw", "image_checksum": "0000000000000000000000000000000000000000000000000000000000000000", "root_gb": 10, "configdrive": "https://config.example.org/drive", "image_type": "whole-disk", "traits": []}','{"cpu_arch": "x86_64", "memory_mb": 65536, "capabilities": "a:b"}','redfish','{"redfish_address": "https://192.0.2.4", "redfish_system_id": "/redfish/v1/Systems/1", "redfish_username": "root", "redfish_password": "pLaNtEd-bmc-word", "redfish_verify_ca": false}','{"clean_steps": null, "is_whole_disk_image": true, "deploy_steps": null, "root_uuid_or_disk_id": "0x00000004", "deploy_boot_mode": "uefi", "last_power_state_change": "2026-03-01T12:00:00.000000", "agent_url": "https://192.0.2.99:9999", "agent_version": "11.0.0", "agent_secret_token": "pLaNtEd-agent-word"}','{}','{}','metal','{"logical_disks": [{"size_gb": 100, "raid_level": "1"}]}','{}',NULL,1,'',0,NULL,NULL,0,NULL,NULL,'{"rack": 7, "unit": 4}',NULL,1,'database','0123456789abcdef0123456789abcdef',NULL,4,NULL,'redfish','redfish-virtual-media','no-console','direct','redfish','agent','redfish','noop','agent','no-rescue',0,NULL,'{}','noop','redfish','redfish',NULL,1,NULL,NULL,'{}','1.40','2026-11-30 15:37:23.474629','2026-11-30 15:37:30.591442');
INSERT INTO "nodes" VALUES(5,'00000005-0000-4000-8000-000000000000','00000905-0000-4000-8000-000000000000','r7-05',1,'power on',NULL,'rescue',NULL,'2026-11-30 15:37:30.395301',NULL,'{"image_source": "https://user:pLaNtEd-image-word@images.example.org/debian.raw", "image_checksum": "0000000000000000000000000000000000000000000000000000000000000000", "root_gb": 10, "configdrive": "https://config.example.org/drive", "image_type": "whole-disk", "rescue_password": "pLaNtEd-rescue-word", "hashed_rescue_password": "$6$salt$hash"}','{"cpu_arch": "x86_64", "memory_mb": 65536, "capabilities": "a:b"}','ipmi','{"ipmi_address": "192.0.2.5", "ipmi_username": "root", "ipmi_password": "pLaNtEd-bmc-word", "ipmi_cipher_suite": 3}','{"clean_steps": null, "is_whole_disk_image": true, "deploy_steps": null, "root_uuid_or_disk_id": "0x00000005", "deploy_boot_mode": "uefi", "last_power_state_change": "2026-03-01T12:00:00.000000", "agent_url": "https://192.0.2.99:9999", "agent_version": "11.0.0", "agent_secret_token": "pLaNtEd-agent-word"}','{}','{}','metal','{"logical_disks": [{"size_gb": 100, "raid_level": "1"}]}','{}',NULL,1,'',0,NULL,NULL,0,NULL,NULL,'{"rack": 7, "unit": 5}',NULL,0,NULL,'0123456789abcdef0123456789abcdef',NULL,NULL,NULL,'no-bios','ipxe','no-console','direct','no-firmware','agent','ipmitool','noop','no-raid','agent',0,NULL,'{}','noop','ipmitool','ipmitool','uefi',NULL,NULL,NULL,'{}','1.40','2026-11-30 15:37:23.843445','2026-11-30 15:37:30.416310');
INSERT INTO "nodes" VALUES(6,'00000006-0000-4000-8000-000000000000','00000601-0000-4000-8000-000000000000','r7-06',1,'power on',NULL,'active',NULL,'2026-11-30 15:37:29.434073',NULL,'{"image_source": "https://user:pLaNtEd-image-word@images.example.org/debian.raw", "image_checksum": "0000000000000000000000000000000000000000000000000000000000000000", "root_gb": 10, "configdrive": "https://config.example.org/drive", "traits": ["CUSTOM_UNIT_6"], "image_type": "whole-disk"}','{"cpu_arch": "x86_64", "memory_mb": 65536, "capabilities": "a:b"}','fake-hardware','{"fake_password": "pLaNtEd-bmc-word", "note": "\u00fc"}','{"clean_steps": null, "last_power_state_change": "2026-03-01T12:00:00.000000", "is_whole_disk_image": true, "deploy_steps": null, "root_uuid_or_disk_id": "0x00000006", "deploy_boot_mode": "uefi", "agent_url": "https://192.0.2.99:9999", "agent_version": "11.0.0", "agent_secret_token": "pLaNtEd-agent-word"}','{}','{}','metal','{"logical_disks": [{"size_gb": 100, "raid_level": "1"}]}','{}',NULL,1,'',0,NULL,NULL,0,NULL,NULL,'{"rack": 7, "unit": 6}',NULL,0,NULL,'0123456789abcdef0123456789abcdef','0123456789abcdef0123456789abcdef',1,NULL,'fake','fake','fake','fake','fake','fake','fake','noop','fake','fake',0,NULL,'{}','noop','fake','fake',NULL,NULL,NULL,NULL,'{}','1.40','2026-11-30 15:37:24.058562','2026-11-30 15:37:29.443698');
INSERT INTO "nodes" VALUES(7,'00000007-0000-4000-8000-000000000000',NULL,'r7-07',1,'power off',NULL,'clean failed','available','2026-11-30 15:37:26.190860','Timeout reached while cleaning the node.','{"image_source": "https://user:pLaNtEd-image-word@images.example.org/debian.raw", "image_checksum": "0000000000000000000000000000000000000000000000000000000000000000", "root_gb": 10, "configdrive": "https://config.example.org/drive"}','{"cpu_arch": "x86_64", "memory_mb": 65536, "capabilities": "a:b"}','redfish','{"redfish_address": "https://192.0.2.7", "redfish_system_id": "/redfish/v1/Systems/1", "redfish_username": "root", "redfish_password": "pLaNtEd-bmc-word", "redfish_verify_ca": false}','{}','{}','{}','metal','{"logical_disks": [{"size_gb": 100, "raid_level": "1"}]}','{}',NULL,NULL,'',1,'cleaning','clean failure',0,NULL,NULL,'{"rack": 7, "unit": 7}',NULL,0,NULL,'0123456789abcdef0123456789abcdef',NULL,NULL,NULL,'redfish','redfish-virtual-media','no-console','direct','redfish','agent','redfish','noop','agent','no-rescue',0,NULL,'{}','noop','redfish','redfish',NULL,NULL,NULL,NULL,'{}','1.40','2026-11-30 15:37:24.286632','2026-11-30 15:37:26.215105');
INSERT INTO "nodes" VALUES(8,'00000008-0000-4000-8000-000000000000','00000908-0000-4000-8000-000000000000','r7-08',1,'power on',NULL,'deploy failed','active','2026-11-30 15:37:27.693110','No image.','{"image_source": "https://user:pLaNtEd-image-word@images.example.org/debian.raw", "image_checksum": "0000000000000000000000000000000000000000000000000000000000000000", "root_gb": 10, "configdrive": "https://config.example.org/drive"}','{"cpu_arch": "x86_64", "memory_mb": 65536, "capabilities": "a:b"}','redfish','{"redfish_address": "https://192.0.2.8", "redfish_system_id": "/redfish/v1/Systems/1", "redfish_username": "root", "redfish_password": "pLaNtEd-bmc-word", "redfish_verify_ca": false}','{"clean_steps": null, "is_whole_disk_image": true, "root_uuid_or_disk_id": "0x00000008", "deploy_boot_mode": "uefi", "last_power_state_change": "2026-03-01T12:00:00.000000", "agent_url": "https://192.0.2.99:9999", "agent_version": "11.0.0", "agent_secret_token": "pLaNtEd-agent-word"}','{}','{}','metal','{"logical_disks": [{"size_gb": 100, "raid_level": "1"}]}','{}',NULL,NULL,'',0,NULL,NULL,0,NULL,NULL,'{"rack": 7, "unit": 8}',NULL,0,NULL,'0123456789abcdef0123456789abcdef',NULL,NULL,NULL,'redfish','redfish-virtual-media','no-console','direct','redfish','agent','redfish','noop','agent','no-rescue',0,NULL,'{}','noop','redfish','redfish',NULL,NULL,NULL,NULL,'{}','1.40','2026-11-30 15:37:24.623172','2026-11-30 15:37:27.780633');
INSERT INTO "nodes" VALUES(9,'00000009-0000-4000-8000-000000000000',NULL,'r7-09',1,'power off',NULL,'inspect failed','manageable','2026-11-30 15:37:26.315667','Timeout','{"image_source": "https://user:pLaNtEd-image-word@images.example.org/debian.raw", "image_checksum": "0000000000000000000000000000000000000000000000000000000000000000", "root_gb": 10, "configdrive": "https://config.example.org/drive"}','{"cpu_arch": "x86_64", "memory_mb": 65536, "capabilities": "a:b"}','redfish','{"redfish_address": "https://192.0.2.9", "redfish_system_id": "/redfish/v1/Systems/1", "redfish_username": "root", "redfish_password": "pLaNtEd-bmc-word", "redfish_verify_ca": false}','{}','{}','{}','metal','{"logical_disks": [{"size_gb": 100, "raid_level": "1"}]}','{}',NULL,NULL,'',0,NULL,NULL,0,NULL,NULL,'{"rack": 7, "unit": 9}',NULL,0,NULL,'0123456789abcdef0123456789abcdef',NULL,NULL,NULL,'redfish','redfish-virtual-media','no-console','direct','redfish','agent','redfish','noop','agent','no-rescue',0,NULL,'{}','noop','redfish','redfish',NULL,NULL,NULL,'00000008-0000-4000-8000-000000000000','{}','1.40','2026-11-30 15:37:24.820485','2026-11-30 15:37:26.341805');
INSERT INTO "nodes" VALUES(10,'00000010-0000-4000-8000-000000000000',NULL,'r7-10',1,'power off',NULL,'adopt failed','active',NULL,'No image source.','{"image_source": "https://user:pLaNtEd-image-word@images.example.org/debian.raw", "image_checksum": "0000000000000000000000000000000000000000000000000000000000000000", "root_gb": 10, "configdrive": "https://config.example.org/drive"}','{"cpu_arch": "x86_64", "memory_mb": 65536, "capabilities": "a:b"}','fake-hardware','{"fake_password": "pLaNtEd-bmc-word", "note": "\u00fc"}','{}','{}','{}','metal','{"logical_disks": [{"size_gb": 100, "raid_level": "1"}]}','{}',NULL,NULL,'',0,NULL,NULL,0,NULL,NULL,'{"rack": 7, "unit": 10}',NULL,0,NULL,'0123456789abcdef0123456789abcdef',NULL,NULL,NULL,'fake','fake','fake','fake','fake','fake','fake','noop','fake','fake',0,NULL,'{}','noop','fake','fake',NULL,NULL,NULL,NULL,'{}','1.40','2026-11-30 15:37:24.966589','2026-11-30 15:37:25.032000');
INSERT INTO "nodes" VALUES(11,'00000011-0000-4000-8000-000000000000','00000911-0000-4000-8000-000000000000','r7-11',1,'power on',NULL,'rescue failed','rescue','2026-11-30 15:37:29.930508','No ramdisk.','{"image_source": "https://user:pLaNtEd-image-word@images.example.org/debian.raw", "image_checksum": "0000000000000000000000000000000000000000000000000000000000000000", "root_gb": 10, "configdrive": "https://config.example.org/drive", "image_type": "whole-disk"}','{"cpu_arch": "x86_64", "memory_mb": 65536, "capabilities": "a:b"}','ipmi','{"ipmi_address": "192.0.2.11", "ipmi_username": "root", "ipmi_password": "pLaNtEd-bmc-word", "ipmi_cipher_suite": 3}','{"clean_steps": null, "is_whole_disk_image": true, "deploy_steps": null, "root_uuid_or_disk_id": "0x0000000b", "deploy_boot_mode": "uefi", "last_power_state_change": "2026-03-01T12:00:00.000000", "agent_url": "https://192.0.2.99:9999", "agent_version": "11.0.0", "agent_secret_token": "pLaNtEd-agent-word"}','{}','{}','metal','{"logical_disks": [{"size_gb": 100, "raid_level": "1"}]}','{}',NULL,1,'',0,NULL,NULL,0,NULL,NULL,'{"rack": 7, "unit": 11}',NULL,0,NULL,'0123456789abcdef0123456789abcdef',NULL,NULL,NULL,'no-bios','ipxe','no-console','direct','no-firmware','agent','ipmitool','noop','no-raid','agent',0,NULL,'{}','noop','ipmitool','ipmitool',NULL,NULL,NULL,NULL,'{}','1.40','2026-11-30 15:37:25.142802','2026-11-30 15:37:29.975401');
INSERT INTO "nodes" VALUES(12,'00000012-0000-4000-8000-000000000000','00000912-0000-4000-8000-000000000000','r7-12',1,'power on',NULL,'unrescue failed','active','2026-11-30 15:37:30.055591','No power.','{"image_source": "https://user:pLaNtEd-image-word@images.example.org/debian.raw", "image_checksum": "0000000000000000000000000000000000000000000000000000000000000000", "root_gb": 10, "configdrive": "https://config.example.org/drive", "image_type": "whole-disk"}','{"cpu_arch": "x86_64", "memory_mb": 65536, "capabilities": "a:b"}','fake-hardware','{"fake_password": "pLaNtEd-bmc-word", "note": "\u00fc"}','{"clean_steps": null, "is_whole_disk_image": true, "deploy_steps": null, "root_uuid_or_disk_id": "0x0000000c", "deploy_boot_mode": "uefi", "last_power_state_change": "2026-03-01T12:00:00.000000", "agent_url": "https://192.0.2.99:9999", "agent_version": "11.0.0", "agent_secret_token": "pLaNtEd-agent-word"}','{}','{}','metal','{"logical_disks": [{"size_gb": 100, "raid_level": "1"}]}','{}',NULL,1,'',0,NULL,NULL,0,NULL,NULL,'{"rack": 7, "unit": 12}',NULL,0,NULL,'0123456789abcdef0123456789abcdef',NULL,NULL,NULL,'fake','fake','fake','fake','fake','fake','fake','noop','fake','fake',0,NULL,'{}','noop','fake','fake',NULL,NULL,NULL,NULL,'{}','1.40','2026-11-30 15:37:25.287680','2026-11-30 15:37:30.085494');
INSERT INTO "nodes" VALUES(13,'00000013-0000-4000-8000-000000000000','00000913-0000-4000-8000-000000000000','r7-13',1,'power on',NULL,'service failed','active','2026-11-30 15:37:30.156369','A step failed.','{"image_source": "https://user:pLaNtEd-image-word@images.example.org/debian.raw", "image_checksum": "0000000000000000000000000000000000000000000000000000000000000000", "root_gb": 10, "configdrive": "https://config.example.org/drive", "image_type": "whole-disk"}','{"cpu_arch": "x86_64", "memory_mb": 65536, "capabilities": "a:b"}','fake-hardware','{"fake_password": "pLaNtEd-bmc-word", "note": "\u00fc"}','{"clean_steps": null, "is_whole_disk_image": true, "deploy_steps": null, "root_uuid_or_disk_id": "0x0000000d", "deploy_boot_mode": "uefi", "last_power_state_change": "2026-03-01T12:00:00.000000", "agent_url": "https://192.0.2.99:9999", "agent_version": "11.0.0", "agent_secret_token": "pLaNtEd-agent-word"}','{}','{}','metal','{"logical_disks": [{"size_gb": 100, "raid_level": "1"}]}','{}',NULL,1,'',0,NULL,NULL,0,NULL,NULL,'{"rack": 7, "unit": 13}',NULL,0,NULL,'0123456789abcdef0123456789abcdef',NULL,NULL,NULL,'fake','fake','fake','fake','fake','fake','fake','noop','fake','fake',0,NULL,'{}','noop','fake','fake',NULL,NULL,NULL,NULL,'{}','1.40','2026-11-30 15:37:25.437247','2026-11-30 15:37:30.193738');
INSERT INTO "nodes" VALUES(14,'00000014-0000-4000-8000-000000000000',NULL,'r7-14',1,'power off',NULL,'error','available','2026-11-30 15:37:26.561687','Undeploy failed.','{"image_source": "https://user:pLaNtEd-image-word@images.example.org/debian.raw", "image_checksum": "0000000000000000000000000000000000000000000000000000000000000000", "root_gb": 10, "configdrive": "https://config.example.org/drive"}','{"cpu_arch": "x86_64", "memory_mb": 65536, "capabilities": "a:b"}','ipmi','{"ipmi_address": "192.0.2.14", "ipmi_username": "root", "ipmi_password": "pLaNtEd-bmc-word", "ipmi_cipher_suite": 3}','{}','{}','{}','metal','{"logical_disks": [{"size_gb": 100, "raid_level": "1"}]}','{}',NULL,NULL,'',0,NULL,NULL,0,NULL,NULL,'{"rack": 7, "unit": 14}',NULL,0,NULL,'0123456789abcdef0123456789abcdef',NULL,NULL,NULL,'no-bios','ipxe','no-console','direct','no-firmware','agent','ipmitool','noop','no-raid','agent',1,'old','{}','noop','ipmitool','ipmitool',NULL,NULL,NULL,NULL,'{}','1.40','2026-11-30 15:37:25.641720','2026-11-30 15:37:26.590507');
CREATE TABLE portgroups (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36), 
	name VARCHAR(255), 
	node_id INTEGER, 
	address VARCHAR(18), 
	extra TEXT, 
	internal_info TEXT, 
	standalone_ports_supported BOOLEAN, 
	mode VARCHAR(255), 
	properties TEXT, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_portgroups0uuid UNIQUE (uuid), 
	CONSTRAINT uniq_portgroups0address UNIQUE (address), 
	CONSTRAINT uniq_portgroups0name UNIQUE (name), 
	FOREIGN KEY(node_id) REFERENCES nodes (id)
);
INSERT INTO "portgroups" VALUES(1,'00002004-0000-4000-8000-000000000000','r7-04-bond',4,'52:54:00:08:04:00','{"a": [1, null]}','{}',1,'802.3ad','{"miimon": 100}','1.5','2026-11-30 15:37:23.565874',NULL);
INSERT INTO "portgroups" VALUES(2,'00002006-0000-4000-8000-000000000000','r7-06-bond',6,'52:54:00:08:06:00','{"a": [1, null]}','{}',1,'802.3ad','{"miimon": 100}','1.5','2026-11-30 15:37:24.173221',NULL);
CREATE TABLE ports (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36), 
	address VARCHAR(18), 
	node_id INTEGER, 
	extra TEXT, 
	local_link_connection TEXT, 
	portgroup_id INTEGER, 
	pxe_enabled BOOLEAN, 
	internal_info TEXT, 
	physical_network VARCHAR(64), 
	is_smartnic BOOLEAN, 
	name VARCHAR(255), 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_ports0address UNIQUE (address), 
	CONSTRAINT uniq_ports0uuid UNIQUE (uuid), 
	CONSTRAINT uniq_ports0name UNIQUE (name), 
	FOREIGN KEY(node_id) REFERENCES nodes (id), 
	FOREIGN KEY(portgroup_id) REFERENCES portgroups (id)
);
INSERT INTO "ports" VALUES(1,'00001010-0000-4000-8000-000000000000','52:54:00:07:01:00',1,'{"nic": 0}','{}',NULL,1,'{}','physnet1',0,NULL,'1.11','2026-11-30 15:37:22.521027',NULL);
INSERT INTO "ports" VALUES(2,'00001011-0000-4000-8000-000000000000','52:54:00:07:01:01',1,'{"nic": 1}','{}',NULL,0,'{}','physnet1',0,NULL,'1.11','2026-11-30 15:37:22.608457',NULL);
INSERT INTO "ports" VALUES(3,'00001020-0000-4000-8000-000000000000','52:54:00:07:02:00',2,'{"nic": 0}','{}',NULL,1,'{}','physnet1',0,NULL,'1.11','2026-11-30 15:37:22.924428',NULL);
INSERT INTO "ports" VALUES(4,'00001021-0000-4000-8000-000000000000','52:54:00:07:02:01',2,'{"nic": 1}','{}',NULL,0,'{}','physnet1',0,NULL,'1.11','2026-11-30 15:37:23.016135',NULL);
INSERT INTO "ports" VALUES(5,'00001030-0000-4000-8000-000000000000','52:54:00:07:03:00',3,'{"nic": 0}','{}',NULL,1,'{}','physnet1',0,NULL,'1.11','2026-11-30 15:37:23.295862',NULL);
INSERT INTO "ports" VALUES(6,'00001031-0000-4000-8000-000000000000','52:54:00:07:03:01',3,'{"nic": 1}','{}',NULL,0,'{}','physnet1',1,NULL,'1.11','2026-11-30 15:37:23.343216',NULL);
INSERT INTO "ports" VALUES(7,'00001040-0000-4000-8000-000000000000','52:54:00:07:04:00',4,'{"nic": 0}','{"switch_id": "52:54:00:00:00:ff", "port_id": "Eth1/0", "switch_info": "leaf-7"}',1,1,'{"tenant_vif_port_id": "00000801-0000-4000-8000-000000000000"}','physnet1',0,'r7-04-nic0','1.11','2026-11-30 15:37:23.642523',NULL);
INSERT INTO "ports" VALUES(8,'00001041-0000-4000-8000-000000000000','52:54:00:07:04:01',4,'{"nic": 1}','{"switch_id": "52:54:00:00:00:ff", "port_id": "Eth1/1", "switch_info": "leaf-7"}',1,0,'{}','physnet1',0,'r7-04-nic1','1.11','2026-11-30 15:37:23.712058',NULL);
INSERT INTO "ports" VALUES(9,'00001050-0000-4000-8000-000000000000','52:54:00:07:05:00',5,'{"nic": 0}','{}',NULL,1,'{}','physnet1',0,NULL,'1.11','2026-11-30 15:37:23.949172',NULL);
INSERT INTO "ports" VALUES(10,'00001051-0000-4000-8000-000000000000','52:54:00:07:05:01',5,'{"nic": 1}','{}',NULL,0,'{}','physnet1',0,NULL,'1.11','2026-11-30 15:37:23.978204',NULL);
INSERT INTO "ports" VALUES(11,'00001060-0000-4000-8000-000000000000','52:54:00:07:06:00',6,'{"nic": 0}','{}',NULL,1,'{}','physnet1',0,NULL,'1.11','2026-11-30 15:37:24.207296',NULL);
INSERT INTO "ports" VALUES(12,'00001061-0000-4000-8000-000000000000','52:54:00:07:06:01',6,'{"nic": 1}','{}',NULL,0,'{}','physnet1',0,NULL,'1.11','2026-11-30 15:37:24.249936',NULL);
INSERT INTO "ports" VALUES(13,'00001070-0000-4000-8000-000000000000','52:54:00:07:07:00',7,'{"nic": 0}','{}',NULL,1,'{}','physnet1',0,NULL,'1.11','2026-11-30 15:37:24.537001',NULL);
INSERT INTO "ports" VALUES(14,'00001071-0000-4000-8000-000000000000','52:54:00:07:07:01',7,'{"nic": 1}','{}',NULL,0,'{}','physnet1',0,NULL,'1.11','2026-11-30 15:37:24.575309',NULL);
INSERT INTO "ports" VALUES(15,'00001080-0000-4000-8000-000000000000','52:54:00:07:08:00',8,'{"nic": 0}','{}',NULL,1,'{}','physnet1',0,NULL,'1.11','2026-11-30 15:37:24.703145',NULL);
INSERT INTO "ports" VALUES(16,'00001081-0000-4000-8000-000000000000','52:54:00:07:08:01',8,'{"nic": 1}','{}',NULL,0,'{}','physnet1',0,NULL,'1.11','2026-11-30 15:37:24.731443',NULL);
INSERT INTO "ports" VALUES(17,'00001090-0000-4000-8000-000000000000','52:54:00:07:09:00',9,'{"nic": 0}','{}',NULL,1,'{}','physnet1',0,NULL,'1.11','2026-11-30 15:37:24.891913',NULL);
INSERT INTO "ports" VALUES(18,'00001091-0000-4000-8000-000000000000','52:54:00:07:09:01',9,'{"nic": 1}','{}',NULL,0,'{}','physnet1',0,NULL,'1.11','2026-11-30 15:37:24.924238',NULL);
INSERT INTO "ports" VALUES(19,'00001100-0000-4000-8000-000000000000','52:54:00:07:0a:00',10,'{"nic": 0}','{}',NULL,1,'{}','physnet1',0,NULL,'1.11','2026-11-30 15:37:25.068039',NULL);
INSERT INTO "ports" VALUES(20,'00001101-0000-4000-8000-000000000000','52:54:00:07:0a:01',10,'{"nic": 1}','{}',NULL,0,'{}','physnet1',0,NULL,'1.11','2026-11-30 15:37:25.097495',NULL);
INSERT INTO "ports" VALUES(21,'00001110-0000-4000-8000-000000000000','52:54:00:07:0b:00',11,'{"nic": 0}','{}',NULL,1,'{}','physnet1',0,NULL,'1.11','2026-11-30 15:37:25.215781',NULL);
INSERT INTO "ports" VALUES(22,'00001111-0000-4000-8000-000000000000','52:54:00:07:0b:01',11,'{"nic": 1}','{}',NULL,0,'{}','physnet1',0,NULL,'1.11','2026-11-30 15:37:25.248520',NULL);
INSERT INTO "ports" VALUES(23,'00001120-0000-4000-8000-000000000000','52:54:00:07:0c:00',12,'{"nic": 0}','{}',NULL,1,'{}','physnet1',0,NULL,'1.11','2026-11-30 15:37:25.360442',NULL);
INSERT INTO "ports" VALUES(24,'00001121-0000-4000-8000-000000000000','52:54:00:07:0c:01',12,'{"nic": 1}','{}',NULL,0,'{}','physnet1',0,NULL,'1.11','2026-11-30 15:37:25.394054',NULL);
INSERT INTO "ports" VALUES(25,'00001130-0000-4000-8000-000000000000','52:54:00:07:0d:00',13,'{"nic": 0}','{}',NULL,1,'{}','physnet1',0,NULL,'1.11','2026-11-30 15:37:25.543542',NULL);
INSERT INTO "ports" VALUES(26,'00001131-0000-4000-8000-000000000000','52:54:00:07:0d:01',13,'{"nic": 1}','{}',NULL,0,'{}','physnet1',0,NULL,'1.11','2026-11-30 15:37:25.580302',NULL);
INSERT INTO "ports" VALUES(27,'00001140-0000-4000-8000-000000000000','52:54:00:07:0e:00',14,'{"nic": 0}','{}',NULL,1,'{}','physnet1',0,NULL,'1.11','2026-11-30 15:37:25.747076',NULL);
INSERT INTO "ports" VALUES(28,'00001141-0000-4000-8000-000000000000','52:54:00:07:0e:01',14,'{"nic": 1}','{}',NULL,0,'{}','physnet1',0,NULL,'1.11','2026-11-30 15:37:25.779215',NULL);
CREATE TABLE runbook_steps (
	id INTEGER NOT NULL, 
	runbook_id INTEGER NOT NULL, 
	interface VARCHAR(255) NOT NULL, 
	step VARCHAR(255) NOT NULL, 
	args TEXT NOT NULL, 
	"order" INTEGER NOT NULL, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	FOREIGN KEY(runbook_id) REFERENCES runbooks (id)
);
INSERT INTO "runbook_steps" VALUES(1,1,'deploy','erase_devices_metadata','{"password": "pLaNtEd-runbook-word"}',1,NULL,'2026-11-30 15:37:22.090479',NULL);
CREATE TABLE runbooks (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36), 
	name VARCHAR(255) NOT NULL, 
	public BOOLEAN, 
	owner VARCHAR(255), 
	disable_ramdisk BOOLEAN, 
	extra TEXT, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_runbooks0uuid UNIQUE (uuid), 
	CONSTRAINT uniq_runbooks0name UNIQUE (name)
);
INSERT INTO "runbooks" VALUES(1,'00000711-0000-4000-8000-000000000000','CUSTOM_RB',0,'0123456789abcdef0123456789abcdef',0,'{"r": 1}','1.0','2026-11-30 15:37:22.084466',NULL);
CREATE TABLE volume_connectors (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36), 
	node_id INTEGER, 
	type VARCHAR(32), 
	connector_id VARCHAR(255), 
	extra TEXT, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_volumeconnectors0uuid UNIQUE (uuid), 
	CONSTRAINT uniq_volumeconnectors0type0connector_id UNIQUE (type, connector_id), 
	FOREIGN KEY(node_id) REFERENCES nodes (id)
);
INSERT INTO "volume_connectors" VALUES(1,'00003003-0000-4000-8000-000000000000',3,'iqn','iqn.2026-01.org.example:r7-03','{"c": 1}','1.0','2026-11-30 15:37:23.389368',NULL);
INSERT INTO "volume_connectors" VALUES(2,'00003004-0000-4000-8000-000000000000',4,'iqn','iqn.2026-01.org.example:r7-04','{"c": 1}','1.0','2026-11-30 15:37:23.745041',NULL);
INSERT INTO "volume_connectors" VALUES(3,'00003008-0000-4000-8000-000000000000',8,'iqn','iqn.2026-01.org.example:r7-08','{"c": 1}','1.0','2026-11-30 15:37:24.762002',NULL);
CREATE TABLE volume_targets (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36), 
	node_id INTEGER, 
	volume_type VARCHAR(64), 
	properties TEXT, 
	boot_index INTEGER, 
	volume_id VARCHAR(36), 
	extra TEXT, 
	version VARCHAR(15), 
	created_at DATETIME, 
	updated_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uniq_volumetargets0uuid UNIQUE (uuid), 
	CONSTRAINT uniq_volumetargets0node_id0boot_index UNIQUE (node_id, boot_index), 
	FOREIGN KEY(node_id) REFERENCES nodes (id)
);
INSERT INTO "volume_targets" VALUES(1,'00004003-0000-4000-8000-000000000000',3,'iscsi','{"target_portal": "192.0.2.200:3260", "target_lun": 1, "auth_method": "CHAP", "auth_username": "u", "auth_password": "pLaNtEd-chap-word"}',0,'v-3','{}','1.0','2026-11-30 15:37:23.428373',NULL);
INSERT INTO "volume_targets" VALUES(2,'00004004-0000-4000-8000-000000000000',4,'iscsi','{"target_portal": "192.0.2.200:3260", "target_lun": 1, "auth_method": "CHAP", "auth_username": "u", "auth_password": "pLaNtEd-chap-word"}',0,'v-4','{}','1.0','2026-11-30 15:37:23.779939',NULL);
INSERT INTO "volume_targets" VALUES(3,'00004008-0000-4000-8000-000000000000',8,'iscsi','{"target_portal": "192.0.2.200:3260", "target_lun": 1, "auth_method": "CHAP", "auth_username": "u", "auth_password": "pLaNtEd-chap-word"}',0,'v-8','{}','1.0','2026-11-30 15:37:24.782774',NULL);
CREATE INDEX resource_class_idx ON nodes (resource_class);
CREATE INDEX provision_state_idx ON nodes (provision_state);
CREATE INDEX lessee_idx ON nodes (lessee);
CREATE INDEX conductor_group_idx ON nodes (conductor_group);
CREATE INDEX shard_idx ON nodes (shard);
CREATE INDEX driver_idx ON nodes (driver);
CREATE INDEX reservation_idx ON nodes (reservation);
CREATE INDEX owner_idx ON nodes (owner);
CREATE INDEX parent_node_idx ON nodes (parent_node);
CREATE INDEX deploy_template_steps_step_idx ON deploy_template_steps (step);
CREATE INDEX deploy_template_id ON deploy_template_steps (deploy_template_id);
CREATE INDEX deploy_template_steps_interface_idx ON deploy_template_steps (interface);
CREATE INDEX runbook_id ON runbook_steps (runbook_id);
CREATE INDEX runbook_steps_interface_idx ON runbook_steps (interface);
CREATE INDEX runbook_steps_step_idx ON runbook_steps (step);
CREATE INDEX node_tags_idx ON node_tags (tag);
CREATE INDEX node_traits_idx ON node_traits (trait);
CREATE INDEX history_node_id_idx ON node_history (node_id);
CREATE INDEX history_conductor_idx ON node_history (conductor);
CREATE INDEX history_uuid_idx ON node_history (uuid);
CREATE INDEX inventory_node_id_idx ON node_inventory (node_id);
COMMIT;
